"""Opens safetensors shards as source tensors, and proves that they hold what the index says."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.converter.sources.weight_files import WeightFiles
from masu.specs.container import Container
from masu.specs.errors import ContainerError, SourceError


def open_shards(folder: Path, weights: WeightFiles, where: str) -> dict[str, Container]:
    """The weight files, opened: headers only, shard by shard.

    Raises:
        SourceError: everything that is wrong with the files, and with the index against them.
    """
    shards: dict[str, Container] = {}
    problems, hints = list(weights.problems), []
    for name in weights.files:
        if not (folder / name).is_file():
            continue  # among the problems already
        try:
            shards[name] = Container.open(folder / name)
        except ContainerError as error:
            problems += [error.message, *(f"  {problem}" for problem in error.problems)]
            hints.append(error.hint)
    if weights.placed is not None:
        problems += _disagreements(shards, weights.placed)
    if not problems and not any(shard.tensors for shard in shards.values()):
        problems.append("no tensors at all")
    if problems:
        raise SourceError(
            f"the weights of {where} are not usable",
            problems=problems,
            hint=next((hint for hint in hints if hint), "copy or download the checkpoint again"),
        )
    return shards


def source_tensors(shards: Mapping[str, Container]) -> dict[str, SourceTensor]:
    """Every tensor of the shards, in file order; nothing is read."""
    return {
        name: SourceTensor(
            name=name,
            dtype=stored.dtype,
            shape=stored.shape,
            location=location,
            read=_reader(shard, name),
            stored=shard.range(name),
            raw=shard.range(name),
        )
        for location, shard in shards.items()
        for name, stored in shard.tensors.items()
    }


def _reader(shard: Container, name: str) -> Callable[[int, int], np.ndarray]:
    def read(start: int, stop: int) -> np.ndarray:
        try:
            return shard.read(name, start, stop)
        except ContainerError as error:  # here the file belongs to a source, not to a package
            raise SourceError(error.message, hint=error.hint) from error

    return read


def _disagreements(shards: Mapping[str, Container], placed: Mapping[str, str]) -> Iterator[str]:
    """Each tensor that is not in exactly the shard where the index places it."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for location, shard in shards.items():
        for name in shard.tensors:
            homes[name].append(location)
    for name in sorted(homes.keys() | placed.keys()):
        found, expected = homes[name], placed.get(name)
        if expected is None:
            yield f"{name}: in {_listed(found)}, but not in the index"
        elif len(found) > 1:
            yield f"{name}: in {_listed(found)}; the index places it in {expected} alone"
        elif found != [expected] and (found or expected in shards):
            lies = f"it is in {found[0]}" if found else "it is in no shard"
            yield f"{name}: the index places it in {expected}, but {lies}"


def _listed(names: list[str]) -> str:
    return " and ".join(names)
