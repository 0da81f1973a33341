"""A tied table becomes two, input table and readout, so that each can have its own format."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from masu.specs.blocks.embedding import (
    BiasedReadoutConfig,
    EmbeddingConfig,
    TiedEmbeddingConfig,
    UntiedEmbeddingConfig,
    tables_of,
)
from masu.specs.errors import RecipeError
from masu.specs.formats import FullPrecisionSpec
from masu.specs.model import TextModelConfig
from masu.specs.stream import Piece, PlannedTensor

TABLE = "embedding.embedding"


def untied(
    config: TextModelConfig, stream: Sequence[PlannedTensor]
) -> tuple[TextModelConfig, list[PlannedTensor]]:
    """The same function with two tables; the readout's lies `[out, in]`, which are the same bytes.

    Raises:
        RecipeError: the model is not a tied one, or its table is quantised already.
    """
    network = config.network
    if not isinstance(tables_of(network.embedding_config), TiedEmbeddingConfig):
        raise RecipeError(
            "untie: the model's embedding is not tied",
            hint="leave `untie` out; input table and readout have formats of their own already",
        )
    changed = config.with_embedding(_untied_config(network.embedding_config))
    return changed, [two for tensor in stream for two in _tables(tensor, config.ROOT)]


def _untied_config(config: EmbeddingConfig) -> EmbeddingConfig:
    tied = tables_of(config)
    tables = UntiedEmbeddingConfig(
        type="UntiedEmbeddingConfig",
        input_scale=tied.input_scale,
        logit_soft_cap=tied.logit_soft_cap,
        logit_scale=tied.logit_scale,
    )
    if isinstance(config, BiasedReadoutConfig):
        return BiasedReadoutConfig(type="BiasedReadoutConfig", tables_config=tables)
    return tables


def _tables(tensor: PlannedTensor, root: str) -> Iterator[PlannedTensor]:
    """The two tables for the tied one, every other tensor as it is."""
    if tensor.name != f"{root}.{TABLE}":
        yield tensor
        return
    if not isinstance(tensor.format, FullPrecisionSpec):
        kind = type(tensor.format).__name__
        raise RecipeError(
            f"untie: {tensor.name} is quantised already ({kind}), so a second table would be no "
            "better than the first",
            hint="untie the full-precision package",
        )
    yield _renamed(tensor, f"{root}.embedding.input_embedding", tensor.format)
    readout = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    yield _renamed(tensor, f"{root}.embedding.output_embedding", readout)


def _renamed(tensor: PlannedTensor, name: str, stored: FullPrecisionSpec) -> PlannedTensor:
    def named(array: str) -> str:
        return name + array.removeprefix(tensor.name)

    def pieces() -> Iterator[tuple[str, Piece]]:
        yield from ((named(array), piece) for array, piece in tensor.pieces())

    arrays = {named(array): spec for array, spec in tensor.arrays.items()}
    return replace(tensor, name=name, format=stored, arrays=arrays, pieces=pieces)
