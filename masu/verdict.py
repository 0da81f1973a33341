"""Does the package compute what its source says? The `consistent` level: masu's own reference.

The reference runs in float64 on the source's values, taken through the family's table and rounded
once to the package's type; the package runs in float32 on the stored bytes. They share the table
and the blocks, so this finds damage in planning, writing, storing, reading and in the fast
backend, not a mistake in the table itself; that takes an independent model.
"""

from collections.abc import Mapping
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
    from masu.runtime.model import Decoder
    from masu.specs.formats import WeightFormat
    from masu.specs.formats.base import Planes

PROBE = "The capital of France is Paris.\ndef fibonacci(n):\n    return n\nOnce, in 1984, a fox"
MAX_TOKENS = 40
SINGLE_STEPS = 2
"""The last tokens go one by one, so that both of the runtime's programs are compared."""

BOUND = 1e-4
BOUND_LAYERS = 32
"""Largest logit difference allowed, in standard deviations of the reference's logits, up to this
many layers; deeper models get proportionally more. Float32 rounding over the 30 layers of SmolLM2
measured 1e-5 to 4e-5; a 2 % error in one matrix of one layer exceeds the bound (tests)."""


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    level: `consistent`: against masu's own float64 reference.
    error: largest difference of a logit, in standard deviations of the reference's logits.
    rounding: what storing in the package's type moved the logits by, in the same unit; 0 if
        every value is stored exactly.
    tokens: length of the sequence that was compared, at every position.
    """

    level: str
    passed: bool
    error: float
    bound: float
    rounding: float
    tokens: int

    def describe(self) -> str:
        outcome = (
            "the package computes what the source says"
            if self.passed
            else "the package does not compute what the source says"
        )
        return (
            f"{outcome}: largest logit difference {self.error:.1e} of the spread, "
            f"bound {self.bound:.0e}, at {self.tokens} positions"
        )


def consistent(folder: Path, plan: ConversionPlan) -> Verdict:
    """Load the package strictly and compare its logits with the plan's own.

    Raises:
        PackageError: the strict load fails.
    """
    from masu.runtime.model import load_model
    from masu.runtime.reference import reference_logits

    ids = _probe_ids(plan)
    actual = _run(load_model(Package.open(folder), dtype="float32"), ids)
    stored = reference_logits(PlanSource.of(plan, exact=False), ids)
    exact = reference_logits(PlanSource.of(plan, exact=True), ids) if plan.rounded else stored
    error, bound = _distance(actual, stored), _bound(plan.config)
    return Verdict(
        level="consistent",
        passed=error <= bound,
        error=error,
        bound=bound,
        rounding=_distance(stored, exact),
        tokens=len(ids),
    )


def _bound(config: LanguageModelConfig) -> float:
    layers = len(config.decoder_config.transformer_config.layer_configs)
    return BOUND * max(1.0, layers / BOUND_LAYERS)


def _run(model: "Decoder", ids: np.ndarray) -> np.ndarray:
    """Logits of every position: the prompt in one piece, its last tokens one by one."""
    first = max(1, len(ids) - SINGLE_STEPS)
    logits, state = model.advance(model.start(len(ids)), ids[:first])
    found = [logits]
    for token in ids[first:]:
        logits, state = model.advance(state, [int(token)])
        found.append(logits)
    return np.concatenate(found)


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


def _probe_ids(plan: ConversionPlan) -> np.ndarray:
    """The probe's tokens; a vocabulary too small for text gets ids of its own."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(plan.tokenizer)
    vocab_size = plan.config.decoder_config.vocab_size
    ids = tokenizer.encode(PROBE, add_special_tokens=False).ids[:MAX_TOKENS]
    known = [token for token in ids if token < vocab_size]
    return np.array(known or [token % vocab_size for token in range(MAX_TOKENS)], dtype=np.int64)


def _distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """NaN counts as infinitely far: a comparison with it must fail."""
    worst, spread = float(np.abs(actual - expected).max()), float(expected.std())
    if not np.isfinite(worst):
        return float("inf")
    return worst / spread if spread else worst
