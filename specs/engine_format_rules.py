"""Limits of weight formats: what kernels were compiled for, and where each format may stand."""

from collections.abc import Collection, Iterator

from masu.specs.engine import Breach, Candidate, Rule
from masu.specs.engine_places import hybrids, parts
from masu.specs.formats.d4s4 import D4S4Spec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.low_rank import LowRankSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.tensors import Matrix, Vector


def known_formats(names: Collection[str]) -> Rule:
    """Every weight spec, also inside a hybrid, is of a type that the engine has."""

    def breaches(candidate: Candidate) -> Iterator[Breach]:
        for path, part in parts(candidate):
            tag = type(part).__name__
            if tag not in names:
                yield Breach(path, f"the engine has no {tag}")

    return Rule("known-formats", "every weight format is one that the engine has", breaches)


def code_bits(allowed: Collection[int]) -> Rule:
    """Bits per code of Int and MLX matrices."""

    def breaches(candidate: Candidate) -> Iterator[Breach]:
        for path, part in parts(candidate):
            if isinstance(part, IntSpec | MLXSpec) and part.bits not in allowed:
                yield Breach(path, f"{part.bits} bits per code; the engine has {_list(allowed)}")

    return Rule("code-bits", f"codes have {_list(allowed)} bits", breaches)


def group_sizes(allowed: Collection[int]) -> Rule:
    """Group sizes of Int and MLX matrices that kernels were compiled for."""

    def breaches(candidate: Candidate) -> Iterator[Breach]:
        for path, part in parts(candidate):
            if isinstance(part, IntSpec | MLXSpec) and part.group_size not in allowed:
                reason = f"group size {part.group_size}; the engine has {_list(allowed)}"
                yield Breach(path, reason)

    return Rule("group-sizes", f"groups have {_list(allowed)} columns", breaches)


def hadamard_blocks(allowed: Collection[int | None]) -> Rule:
    """Block sizes of the Hadamard transform; null is a hybrid without a rotation."""

    def breaches(candidate: Candidate) -> Iterator[Breach]:
        for path, hybrid in hybrids(candidate):
            block = hybrid.incoherence_block_size
            if block not in allowed:
                shown = "null" if block is None else block
                yield Breach(path, f"Hadamard block {shown}; the engine has {_list(allowed)}")

    return Rule("hadamard-blocks", f"Hadamard blocks are {_list(allowed)}", breaches)


def _other_sides(candidate: Candidate) -> Iterator[Breach]:
    """Which sides may be rotated follows from what a matrix is for."""
    matrices = candidate.matrices
    for path, hybrid in hybrids(candidate):
        mode, expected = hybrid.incoherence_processing_mode, _engine_mode(path, matrices[path])
        if mode != expected:
            yield Breach(path, f"rotated on {mode}; the engine expects {expected} here")


def _engine_mode(path: str, matrix: Matrix) -> str:
    if matrix.layout == "input_output":
        return "output"  # a table that is looked up: only its rows' channels can be rotated
    # The readout shares its input with the speculator, so its output stays as it is.
    return "input" if path.endswith(".output_embedding") else "input_output"


def _other_cores(candidate: Candidate) -> Iterator[Breach]:
    for path, hybrid in hybrids(candidate):
        if not isinstance(hybrid.quantization_spec, IntSpec | MLXSpec):
            core = type(hybrid.quantization_spec).__name__
            yield Breach(path, f"a hybrid around {core}; the engine has them around Int and MLX")


def _adapters(candidate: Candidate) -> Iterator[Breach]:
    for path, hybrid in hybrids(candidate):
        if hybrid.adapter_spec is not None:
            yield Breach(path, "a hybrid with an adapter; the engine has none")


def _other_adapters(candidate: Candidate) -> Iterator[Breach]:
    for path, hybrid in hybrids(candidate):
        adapter = hybrid.adapter_spec
        if adapter is not None and not isinstance(adapter, LowRankSpec):
            yield Breach(path, f"an adapter in {type(adapter).__name__}; the engine has LowRank")


def _adapters_of_tables(candidate: Candidate) -> Iterator[Breach]:
    for path, hybrid in hybrids(candidate):
        if hybrid.adapter_spec is not None and ".embedding." in path:
            yield Breach(path, "an embedding with an adapter; the engine has them in layers only")


def _adapters_with_biases(candidate: Candidate) -> Iterator[Breach]:
    vectors = {name for name, entry in candidate.config.tensors() if isinstance(entry, Vector)}
    for path, hybrid in hybrids(candidate):
        if hybrid.adapter_spec is not None and f"{path.removesuffix('.weights')}.biases" in vectors:
            yield Breach(path, "an adapter on a projection with biases; the engine has none there")


def _unrotated_without_adapter(candidate: Candidate) -> Iterator[Breach]:
    for path, hybrid in hybrids(candidate):
        if hybrid.is_core_alone:
            yield Breach(path, "a hybrid without rotation and without adapter; write its core")


def _adapters_alone(candidate: Candidate) -> Iterator[Breach]:
    for path, format_ in candidate.formats.items():
        if isinstance(format_, LowRankSpec):
            yield Breach(path, "LowRank serves as the adapter of a hybrid only")


def _d4s4_elsewhere(candidate: Candidate) -> Iterator[Breach]:
    """D4S4 is decoded by the lookup kernel: a tied table would have to be a readout as well."""
    for path, format_ in candidate.formats.items():
        is_table = path.endswith((".embedding.input_embedding", ".token_embedding"))
        if isinstance(format_, D4S4Spec) and not is_table:
            yield Breach(path, "D4S4 serves untied input tables and per-layer embeddings only")


ROTATION_RULES = (
    Rule(
        "rotated-sides",
        "tables are rotated on the output side, readouts on the input side, all others on both",
        _other_sides,
    ),
    Rule("hybrid-cores", "the core of a hybrid is Int or MLX", _other_cores),
)
NO_ADAPTERS = Rule("no-adapters", "hybrids have no adapter", _adapters)
D4S4_TABLES = Rule(
    "d4s4-tables", "D4S4 serves untied input tables and per-layer embeddings", _d4s4_elsewhere
)
ADAPTER_RULES = (
    Rule("adapter-formats", "adapters are LowRank", _other_adapters),
    Rule("adapters-in-layers", "embeddings have no adapters", _adapters_of_tables),
    Rule(
        "adapters-without-biases",
        "a projection with an adapter has no biases",
        _adapters_with_biases,
    ),
    Rule(
        "unrotated-hybrids",
        "a hybrid that is not rotated has an adapter",
        _unrotated_without_adapter,
    ),
    Rule("low-rank-adapters", "LowRank is an adapter, never a matrix", _adapters_alone),
)


def _list(allowed: Collection[int | None]) -> str:
    return " and ".join("null" if item is None else str(item) for item in allowed)
