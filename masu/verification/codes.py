"""A package's stored arrays against those that its plan would write, byte for byte."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masu.converter.convert import ConversionPlan
from masu.specs.footprint import layers
from masu.specs.package import Package
from masu.specs.stream import FileRange, Piece, PlannedTensor
from masu.specs.tensors import Matrix
from masu.verification.blocks import block_config, block_names, tensors_of
from masu.verification.differences import Divergence
from masu.verification.fingerprints import config_changes, decoded


def stored_divergences(
    package: Package, plan: ConversionPlan, skipped: frozenset[str]
) -> Iterator[Divergence]:
    """Every block whose config or arrays are not the plan's, in the order of the computation.

    Codes of quantised matrices are recomputed: a difference too small to show in a model's output
    shows here. Memory is bounded by the largest tensor.

    Args:
        skipped: matrices whose codes cannot be recomputed from the source alone.
    """
    planned = {tensor.name: tensor for tensor in plan.stream}
    if len(layers(package.config)) != len(layers(plan.config)) or planned.keys() != {
        name for name, _ in package.config.tensors()
    }:
        said = "its tensors are not those that the source has"
        yield Divergence("the whole network", np.inf, 0, (), (said,))
        return
    config: Any = package.config
    feeds = tensors_of(config)
    for block in block_names(config):
        changes = tuple(
            config_changes(block_config(config, block), block_config(plan.config, block), "config")
        )
        names = [n for n in feeds[block] if n not in skipped and _differs(package, planned[n])]
        if changes or names:
            error = max((_distance(package, planned[name]) for name in names), default=np.inf)
            yield Divergence(block, error, 0, tuple(names), changes)


def _differs(package: Package, tensor: PlannedTensor) -> bool:
    if tensor.arrays.items() - package.tensors().items():
        return True
    written: dict[str, list[bytes]] = {name: [] for name in tensor.arrays}
    for name, piece in tensor.pieces():
        written[name].append(_bytes(piece))
    return any(package.read(name).tobytes() != b"".join(parts) for name, parts in written.items())


def _bytes(piece: Piece) -> bytes:
    if not isinstance(piece, FileRange):
        return piece.tobytes()
    with piece.path.open("rb") as file:
        file.seek(piece.offset)
        return file.read(piece.length)


def _distance(package: Package, tensor: PlannedTensor) -> float:
    """How far the numbers are apart, as a share of their size: root mean squares of both."""
    entry = dict(package.config.tensors())[tensor.name]
    if isinstance(entry, Matrix):
        found = decoded(package, tensor.name, entry.shape)
    else:
        found = package.read(tensor.name)
    read = tensor.read if tensor.decoded is None else tensor.decoded
    expected = read(0, tensor.shape[0]).astype(np.float64)
    size = float(np.sqrt(np.sum(expected**2)))
    far = float(np.sqrt(np.sum((found.astype(np.float64) - expected) ** 2)))
    return far / size if size else far
