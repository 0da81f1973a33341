"""Does the package compute what its source says? The `consistent` level: masu's own reference.

The reference runs in float64 on the source's values, taken through the family's table and rounded
once to the package's type; the package runs in float32 on the stored bytes. They share the table
and the blocks, so this finds damage in planning, writing, storing, reading and in the fast
backend, not a mistake in the table itself; that takes an independent model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masu.converter.convert import ConversionPlan
from masu.runtime.reference import reference_logits
from masu.specs.blocks.mixer import is_recurrent
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import TensorMismatch
from masu.specs.formats import FullPrecisionSpec, WeightFormat
from masu.specs.model import TextModelConfig
from masu.specs.package import Package
from masu.specs.stream import PlannedTensor
from masu.specs.tensors import ArraySpec
from masu.verification.differences import Divergence
from masu.verification.staged import own_trace
from masu.verification.walk import walk

if TYPE_CHECKING:
    from masu.runtime.network import Network
    from masu.specs.formats.base import Planes

PROBE = "The capital of France is Paris.\ndef fibonacci(n):\n    return n\nOnce, in 1984, a fox"
MAX_TOKENS = 40
SINGLE_STEPS = 2
"""The last tokens go one by one, so that both of the runtime's programs are compared."""

BOUND = 1e-4
RECURRENT_BOUND = 3e-4
BOUND_LAYERS = 32
"""Largest logit difference allowed, in standard deviations of the reference's logits, up to this
many layers; deeper models get proportionally more. Float32 rounding over the 30 layers of SmolLM2
measured 1e-5 to 4e-5; a 2 % error in one matrix of one layer exceeds the bound (tests).
Recurrent states sum over the whole sequence, in an order that depends on how it is cut: where the
sum nearly cancels, the norm behind it makes its rounding visible."""


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    level: `verified`: against transformers, block by block, and the package's bytes against the
        plan; `consistent`: the second alone, by masu's own float64 reference; `unchanged`: against
        the fingerprints that were taken at the conversion.
    error: the largest difference, in the unit of `bound`.
    rounding: what storing in the package's type moved the logits by, in standard deviations of
        the reference's; 0 if every value is stored exactly.
    tokens: how many tokens were compared, each in every block.
    diverging: the first block that is not what it should be.
    reason: why it is not `verified`.
    remarks: what was not reached, or left out.
    differing: places of config.json and tokenizer.json that are not as the source has them.
    """

    level: str
    passed: bool
    error: float
    bound: float
    rounding: float
    tokens: int
    diverging: Divergence | None = None
    reason: str | None = None
    remarks: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()

    def describe(self) -> str:
        who = "it did at its conversion" if self.level == "unchanged" else "the source says"
        does = "computes" if self.passed else "does not compute"
        if self.diverging is not None:
            return f"the package {does} what {who}: {self.diverging.describe()}"
        if self.differing:
            more = len(self.differing) - 1
            others = f", and {more} more" if more else ""
            return f"the package is not what {who}: {self.differing[0]}{others}"
        return (
            f"the package {does} what {who}: largest difference {self.error:.1e}, "
            f"bound {self.bound:.0e}, over {self.tokens} tokens"
        )

    @property
    def told(self) -> tuple[str, ...]:
        """What people want to know beside the outcome."""
        reason = () if self.reason is None else (f"not verified: {self.reason}",)
        return (*reason, *self.differing, *self.remarks)

    def to_json(self) -> dict[str, Any]:
        """As `masu verify --json` prints it."""
        error = self.error if np.isfinite(self.error) else None  # JSON has no infinity
        diverging = None if self.diverging is None else self.diverging.to_json()
        return {**vars(self), "error": error, "diverging": diverging}


def consistent(folder: Path, plan: ConversionPlan) -> Verdict:
    """Load the package strictly and compare its logits with the plan's own.

    Raises:
        PackageError: the strict load fails.
        TensorMismatch: the source itself computes no numbers.
    """
    from masu.runtime.network import load_network

    ids, source = _probe_ids(plan), PlanSource.of(plan, exact=False)
    with np.errstate(all="ignore"):  # what is not finite is looked for below
        trace, near = own_trace(source, ids)
    if not np.isfinite(trace.logits).all():
        raise TensorMismatch(
            f"{plan.name}: the checkpoint's own logits are not finite",
            hint="its weights hold NaN or infinity, or its config a senseless number",
        )
    package = Package.open(folder)
    actual = _run(load_network(package, dtype="float32"), ids)
    sure, bound = int(near.argmax()) if near.any() else len(ids), _bound(plan.config)
    if sure == len(ids):
        error = _distance(actual, trace.logits)
    else:
        error = _distance(actual[:sure], trace.logits[:sure])
    diverging = None
    if sure < len(ids) or not error <= bound:
        diverging = walk(package, [trace]).diverging
    exact = (
        reference_logits(PlanSource.of(plan, exact=True), ids) if _rounds(plan) else trace.logits
    )
    return Verdict(
        level="consistent",
        passed=error <= bound and diverging is None,
        error=error,
        bound=bound,
        rounding=_distance(trace.logits, exact),
        tokens=len(ids),
        diverging=diverging,
        remarks=() if sure == len(ids) else (_NEAR.format(len(ids) - sure),),
    )


_NEAR = (
    "the last {} tokens were compared block by block only: a router is near a tie at the first of"
    " them"
)


def _rounds(plan: ConversionPlan) -> bool:
    """Whether anything is stored otherwise than exactly: in a narrower type, or as codes."""
    return bool(plan.rounded) or any(tensor.decoded is not None for tensor in plan.stream)


def _bound(config: TextModelConfig) -> float:
    layers = config.network.transformer_config.layer_configs
    recurrent = any(is_recurrent(layer.mixer_config) for layer in layers)
    least = RECURRENT_BOUND if recurrent else BOUND
    return least * max(1.0, len(layers) / BOUND_LAYERS)


def _run(model: "Network", ids: np.ndarray) -> np.ndarray:
    """Logits of every position: the prompt in one piece, its last tokens one by one.

    Of a classifier those of the labels: it has all tokens at once.
    """
    from masu.runtime.encoder import Encoder

    if isinstance(model, Encoder):
        return model.logits(ids)
    first = max(1, len(ids) - SINGLE_STEPS)
    logits, state = model.advance(model.start(len(ids)), ids[:first])
    found = [logits]
    for token in ids[first:]:
        logits, state = model.advance(state, [int(token)])
        found.append(logits)
    return np.concatenate(found)


@dataclass(frozen=True)
class PlanSource:
    """A planned stream as something the runtime can load: numbers in float32, not yet written.

    `stream` holds the tensor behind every array, and the type its values are rounded to first, as
    they will be in the file; None keeps them exact. A quantised matrix comes as what it decodes to:
    with its parameters as they will be in the file, or `exact`, as the source has them.
    """

    config: TextModelConfig
    formats: Mapping[str, WeightFormat]
    stream: Mapping[str, tuple[PlannedTensor, str | None]]
    dtype: str = "F32"
    planes: "Planes" = "group_major"
    exact: bool = False

    @classmethod
    def of(cls, plan: ConversionPlan, *, exact: bool) -> "PlanSource":
        formats: dict[str, WeightFormat] = {}
        stream: dict[str, tuple[PlannedTensor, str | None]] = {}
        for tensor in plan.stream:
            name = tensor.name
            if tensor.format is not None:
                layout = tensor.format.stored_layout
                formats[name] = FullPrecisionSpec(type="FullPrecisionSpec", layout=layout)
                name = f"{name}.weights"
            stream[name] = tensor, None if exact else _rounded_to(tensor)
        return cls(plan.config, formats, stream, exact=exact)

    def tensors(self) -> Mapping[str, ArraySpec]:
        return {name: ArraySpec("F32", tensor.shape) for name, (tensor, _) in self.stream.items()}

    def read(self, name: str) -> np.ndarray:
        tensor, stored = self.stream[name]
        read = tensor.read if self.exact or tensor.decoded is None else tensor.decoded
        values = read(0, tensor.shape[0])
        if stored is not None:
            values = values.astype(NUMPY_DTYPES[stored])
        return values.astype(np.float32)


def _rounded_to(tensor: PlannedTensor) -> str | None:
    """The type that the file holds a tensor's own numbers in; None where it holds codes."""
    is_plain = tensor.format is None or isinstance(tensor.format, FullPrecisionSpec)
    return next(iter(tensor.arrays.values())).dtype if is_plain else None


def _probe_ids(plan: ConversionPlan) -> np.ndarray:
    """The probe's tokens; a vocabulary too small for text gets ids of its own."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(plan.tokenizer)
    vocab_size = plan.config.network.vocab_size
    ids = tokenizer.encode(PROBE, add_special_tokens=False).ids[:MAX_TOKENS]
    known = [token for token in ids if token < vocab_size]
    return np.array(known or [token % vocab_size for token in range(MAX_TOKENS)], dtype=np.int64)


def _distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """NaN counts as infinitely far: a comparison with it must fail. Of nothing it is 0."""
    if not expected.size:
        return 0.0
    worst, spread = float(np.abs(actual - expected).max()), float(expected.std())
    if not np.isfinite(worst):
        return float("inf")
    return worst / spread if spread else worst
