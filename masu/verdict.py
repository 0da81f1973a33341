"""Does the package compute what its source says? The `consistent` level: masu's own reference.

The reference runs in float64 on the source's values, taken through the family's table and rounded
once to the package's type; the package runs in float32 on the stored bytes. They share the table
and the blocks, so this finds damage in planning, writing, storing, reading and in the fast
backend, not a mistake in the table itself; that takes an independent model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masu.converter.convert import ConversionPlan
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.model import LanguageModelConfig
from masu.specs.package import Package
from masu.specs.stream import PlannedTensor
from masu.specs.tensors import ArraySpec

if TYPE_CHECKING:
    from masu.specs.formats import WeightFormat
    from masu.specs.formats.base import Planes

PROBES = ("The capital of France is", "def fibonacci(n):\n    ", "Once upon a time, 1234567")
MAX_TOKENS = 24

BOUND = 1e-4
"""Largest logit difference allowed, in standard deviations of the reference's logits. Float32
rounding over 30 layers stays below 2e-5; a 2 % error in one layer exceeds it by far (tests)."""


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    level: `consistent`: against masu's own float64 reference.
    error: largest difference of a logit, in standard deviations of the reference's logits.
    rounding: what storing in the package's type moved the logits by, in the same unit; 0 if
        every value is stored exactly.
    """

    level: str
    passed: bool
    error: float
    bound: float
    rounding: float
    prompts: int

    def describe(self) -> str:
        outcome = (
            "the package computes what the source says"
            if self.passed
            else ("the package does not compute what the source says")
        )
        return (
            f"{outcome}: largest logit difference {self.error:.1e} of the spread, "
            f"bound {self.bound:.0e}, {self.prompts} prompts"
        )


def consistent(folder: Path, plan: ConversionPlan) -> Verdict:
    """Load the package strictly and compare its logits with the plan's own.

    Raises:
        PackageError: the strict load fails.
    """
    from masu.runtime.model import load_model

    package = Package.open(folder)
    model = load_model(package, dtype="float32")
    prompts = list(_probe_ids(plan))
    actual = [model.logits(ids) for ids in prompts]
    stored = _reference(PlanSource.of(plan, exact=False), prompts)
    exact = _reference(PlanSource.of(plan, exact=True), prompts) if plan.rounded else stored
    error = _worst(actual, stored)
    return Verdict(
        level="consistent",
        passed=bool(error <= BOUND),
        error=error,
        bound=BOUND,
        rounding=_worst(stored, exact),
        prompts=len(prompts),
    )


@dataclass(frozen=True)
class PlanSource:
    """A planned stream as something the runtime can load: the values before they are written.

    With `exact`, every array is float32 or wider and nothing is rounded to the package's type.
    """

    config: LanguageModelConfig
    dtype: str
    planes: "Planes"
    formats: "Mapping[str, WeightFormat]"
    stream: Mapping[str, tuple[PlannedTensor, ArraySpec]]

    @classmethod
    def of(cls, plan: ConversionPlan, *, exact: bool) -> "PlanSource":
        stream = {
            name: (tensor, ArraySpec("F32", spec.shape) if exact else spec)
            for tensor in plan.stream
            for name, spec in tensor.arrays.items()
        }
        formats = {t.name: t.format for t in plan.stream if t.format is not None}
        dtype = "F32" if exact else plan.dtype
        return cls(plan.config, dtype, "group_major", formats, stream)

    def tensors(self) -> Mapping[str, ArraySpec]:
        return {name: spec for name, (_, spec) in self.stream.items()}

    def read(self, name: str) -> np.ndarray:
        tensor, spec = self.stream[name]
        return tensor.read(0, tensor.shape[0]).astype(NUMPY_DTYPES[spec.dtype])


def _probe_ids(plan: ConversionPlan) -> Sequence[np.ndarray]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(plan.tokenizer)
    vocab_size = plan.config.decoder_config.vocab_size
    found = []
    for text in PROBES:
        ids = tokenizer.encode(text, add_special_tokens=False).ids[:MAX_TOKENS]
        found.append(np.array([i for i in ids if i < vocab_size] or [0], dtype=np.int64))
    return found


def _reference(source: PlanSource, prompts: Sequence[np.ndarray]) -> list[np.ndarray]:
    from masu.runtime.reference import reference_logits

    return [reference_logits(source, ids) for ids in prompts]


def _worst(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """NaN counts as infinitely far: a comparison with it must fail."""
    spread = float(np.std(np.concatenate(list(expected))))
    worst = max(float(np.max(np.abs(a - e))) for a, e in zip(actual, expected, strict=True))
    return float("inf") if not np.isfinite(worst) else worst / spread if spread else worst
