"""Limits that engine releases share in kind but not in extent, as rules to be configured."""

from collections.abc import Collection, Iterator, Mapping

from masu.specs.engine import Candidate, Refusal, Rule
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Format
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.json_objects import objects
from masu.specs.model import ClassifierModelConfig
from masu.specs.tensors import Matrix


def known_types(names: Collection[str]) -> Rule:
    """Every `type` tag of config.json is one of the engine's own."""

    def rule(candidate: Candidate) -> Iterator[Refusal]:
        for place, value in objects(candidate.config.model_dump()):
            tag = value.get("type")
            if tag is not None and tag not in names:
                yield Refusal(place or "config.json", f"the engine has no {tag}")

    return rule


def parameters_in(dtype: str) -> Rule:
    """The engine computes in one dtype, and asks the file for it."""

    def rule(candidate: Candidate) -> Iterator[Refusal]:
        if candidate.dtype != dtype:
            reason = f"the engine loads {dtype} parameters, these are {candidate.dtype}"
            yield Refusal("model.safetensors", reason)

    return rule


def no_mixture_of_experts(candidate: Candidate) -> Iterator[Refusal]:
    """The config is known, the loader refuses it."""
    for place, value in objects(candidate.config.model_dump()):
        if value.get("type") == "MixtureOfExpertsConfig":
            yield Refusal(place, "mixture of experts is not supported")


def mean_pooling_only(candidate: Candidate) -> Iterator[Refusal]:
    """Both ways of pooling are parsed, one is implemented."""
    config = candidate.config
    if isinstance(config, ClassifierModelConfig):
        pooling = config.classifier_config.classifier_pooling
        if pooling != "mean":
            reason = f"pooling by {pooling}; the engine has mean"
            yield Refusal("classifier_config.classifier_pooling", reason)


def known_formats(names: Collection[str]) -> Rule:
    """Every weight spec, also inside a hybrid, is of a type that the engine has."""

    def rule(candidate: Candidate) -> Iterator[Refusal]:
        for path, part in _parts(candidate.formats):
            tag = type(part).__name__
            if tag not in names:
                yield Refusal(path, f"the engine has no {tag}")

    return rule


def code_bits(allowed: Collection[int]) -> Rule:
    """Bits per code of Int and MLX matrices."""

    def rule(candidate: Candidate) -> Iterator[Refusal]:
        for path, part in _parts(candidate.formats):
            if isinstance(part, IntSpec | MLXSpec) and part.bits not in allowed:
                yield Refusal(path, f"{part.bits} bits per code; the engine has {_list(allowed)}")

    return rule


def group_sizes(allowed: Collection[int]) -> Rule:
    """Group sizes of Int and MLX matrices that kernels were compiled for."""

    def rule(candidate: Candidate) -> Iterator[Refusal]:
        for path, part in _parts(candidate.formats):
            if isinstance(part, IntSpec | MLXSpec) and part.group_size not in allowed:
                reason = f"group size {part.group_size}; the engine has {_list(allowed)}"
                yield Refusal(path, reason)

    return rule


def hybrid_blocks(allowed: Collection[int | None]) -> Rule:
    """Block sizes of the Hadamard transform; null is a hybrid without a rotation."""

    def rule(candidate: Candidate) -> Iterator[Refusal]:
        for path, hybrid in _hybrids(candidate):
            block = hybrid.incoherence_block_size
            if block not in allowed:
                shown = "null" if block is None else block
                yield Refusal(path, f"Hadamard block {shown}; the engine has {_list(allowed)}")

    return rule


def hybrid_sides(candidate: Candidate) -> Iterator[Refusal]:
    """Which sides may be rotated follows from what a matrix is for."""
    matrices = candidate.matrices
    for path, hybrid in _hybrids(candidate):
        mode, expected = hybrid.incoherence_processing_mode, _engine_mode(path, matrices[path])
        if mode != expected:
            yield Refusal(path, f"rotated on {mode}; the engine expects {expected} here")


def _engine_mode(path: str, matrix: Matrix) -> str:
    if matrix.layout == "input_output":
        return "output"  # a table that is looked up: only its rows' channels can be rotated
    # The readout shares its input with the speculator, so its output stays as it is.
    return "input" if path.endswith(".output_embedding") else "input_output"


def hybrid_cores(candidate: Candidate) -> Iterator[Refusal]:
    """The kernels that undo a rotation read quantised weights only."""
    for path, hybrid in _hybrids(candidate):
        if not isinstance(hybrid.quantization_spec, IntSpec | MLXSpec):
            core = type(hybrid.quantization_spec).__name__
            yield Refusal(path, f"a hybrid around {core}; the engine has them around Int and MLX")


def no_hybrid_adapters(candidate: Candidate) -> Iterator[Refusal]:
    """`adapter_spec` is parsed but has to be null."""
    for path, hybrid in _hybrids(candidate):
        if hybrid.adapter_spec is not None:
            yield Refusal(path, "a hybrid with an adapter; the engine has none")


def _parts(formats: Mapping[str, WeightFormat]) -> Iterator[tuple[str, Format]]:
    """Every format, and those that hybrids are made of, by the path of their arrays."""
    for path, format_ in formats.items():
        yield path, format_
        if isinstance(format_, HybridSpec):
            yield from ((f"{path}.{name}", part) for name, part in format_.parts.items())


def _hybrids(candidate: Candidate) -> Iterator[tuple[str, HybridSpec]]:
    for path, format_ in candidate.formats.items():
        if isinstance(format_, HybridSpec):
            yield path, format_


def _list(allowed: Collection[int | None]) -> str:
    return " and ".join("null" if item is None else str(item) for item in allowed)
