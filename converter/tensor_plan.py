"""From matched tensors to the planned stream; everything that can be wrong is found here."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from masu.converter.assembly import Assembly, Part
from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.table import Match, Rows, Table, Target, Unused, match, wanted_sources
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import TensorMismatch
from masu.specs.formats import WeightFormat
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.manifest import LedgerEntry
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Entry, Matrix

FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class TensorPlan:
    stream: tuple[PlannedTensor, ...]
    ledger: Mapping[str, LedgerEntry]
    rounded: Mapping[str, tuple[str, str]]
    """Engine tensors whose values lose precision: source type and stored type."""
    chunk_bytes: int
    """The most that any tensor holds in memory at a time while its values change."""


@dataclass(frozen=True)
class Placing:
    """What the tie decides: table targets under another engine name, or not stored, with reason."""

    renamed: Mapping[str, str]
    dropped: Mapping[str, str]


def plan_tensors(
    table: Table,
    checkpoint: Checkpoint,
    entries: Mapping[str, Entry],
    dtype: str,
    placing: Placing,
) -> TensorPlan:
    """Plan exactly `entries` out of exactly the checkpoint, or say everything that is off.

    Args:
        table: the family's weight table; its engine names lack the model's root `decoder.`.
        entries: what the config expects, by full engine name.
        dtype: the model's own element type in the package.

    Raises:
        TensorMismatch: missing, unexpected, ambiguous, mis-shaped or mis-typed tensors.
    """
    matches, problems = match(table, checkpoint.tensors)
    groups, ledger = _grouped(matches, placing)
    problems += _missing(table, entries, groups, placing.renamed)
    strays = groups.keys() - entries.keys()
    problems += [f"unmapped    {name}: not a tensor of this config" for name in strays]
    for name in groups.keys() & entries.keys():
        problems += _group_problems(name, groups[name], checkpoint, entries[name])
    if problems:
        raise _mismatch(checkpoint, problems)
    stream = tuple(
        _planned(name, groups[name], checkpoint, entry, dtype) for name, entry in entries.items()
    )
    assemblies = {name: _assembly(groups[name], checkpoint) for name in entries}
    chunk = max((assemblies[t.name].chunk_bytes(_dtype(t)) for t in stream), default=0)
    return TensorPlan(stream, ledger, dict(_rounded(stream, assemblies)), chunk)


def _dtype(tensor: PlannedTensor) -> str:
    [array] = tensor.arrays.values()
    return array.dtype


def _grouped(
    matches: list[Match], placing: Placing
) -> tuple[dict[str, list[Match]], dict[str, LedgerEntry]]:
    """Matches by the engine tensor they make, and the ledger entry of every source tensor."""
    groups: dict[str, list[Match]] = defaultdict(list)
    ledger: dict[str, LedgerEntry] = {}
    for found in matches:
        unused = _unused(found, placing.dropped)
        if unused is not None:
            ledger[found.source] = unused
            continue
        name = f"decoder.{placing.renamed.get(found.name, found.name)}"
        groups[name].append(found)
        ledger[found.source] = LedgerEntry(status="used", into=(name,), reason=None)
    return groups, ledger


def _unused(found: Match, dropped: Mapping[str, str]) -> LedgerEntry | None:
    """The ledger entry of a tensor that goes nowhere; None if it is used."""
    if isinstance(found.row.target, Unused):
        status = "left_out" if found.row.target.left_out else "inert"
        return LedgerEntry(status=status, into=(), reason=found.row.target.reason)
    if found.name in dropped:
        return LedgerEntry(status="inert", into=(), reason=dropped[found.name])
    return None


def _missing(
    table: Table,
    entries: Mapping[str, Entry],
    groups: Mapping[str, list[Match]],
    renamed: Mapping[str, str],
) -> Iterator[str]:
    """Engine tensors that nothing makes, named by what should have made them."""
    table_names = {new: old for old, new in renamed.items()}
    for name in entries.keys() - groups.keys():
        relative = name.removeprefix("decoder.")
        sources = wanted_sources(table, table_names.get(relative, relative))
        origin = f" (for {name})" if sources else ""
        yield f"missing     {', '.join(sources) or name}{origin}"


def _group_problems(
    name: str, group: list[Match], checkpoint: Checkpoint, entry: Entry
) -> Iterator[str]:
    """What is wrong with the tensors that make one engine tensor."""
    if len({found.row for found in group}) > 1:
        yield f"ambiguous   {name}: made by {', '.join(sorted(found.source for found in group))}"
        return
    absent = list(_absent(group))
    if absent:
        yield from (f"missing     {source} (for {name})" for source in absent)
        return
    tensors = [checkpoint.tensors[found.source] for found in group]
    odd = [t for t in tensors if t.dtype not in FLOATS]
    yield from (f"type        {t.name}: expected floats, found {t.dtype}" for t in odd)
    if len({t.shape[1:] for t in tensors}) > 1:
        shapes = ", ".join(f"{t.name} {list(t.shape)}" for t in tensors)
        yield f"shape       {name}: its parts differ in width: {shapes}"
    elif (shape := _assembly(group, checkpoint).shape) != entry.shape:
        made = ", ".join(f"{t.name} {list(t.shape)}" for t in tensors[:4])
        yield f"shape       {name}: expected {list(entry.shape)}, found {list(shape)} from {made}"


def _absent(group: list[Match]) -> Iterator[str]:
    """Alternatives of a row that are missing beside those that are there, stack by stack."""
    row, found = group[0].row, {(m.stack, m.alternative) for m in group}
    stacks = {m.stack for m in group}
    if any(stacks) and all(len(stack) == 1 for stack in stacks):
        stacks |= {(index,) for index in range(max(stack[0] for stack in stacks) + 1)}
    for stack in sorted(stacks):
        for alternative, source in enumerate(row.sources):
            if (stack, alternative) not in found:
                yield _named(source, group[0], stack)


def _named(pattern: str, sibling: Match, stack: tuple[int, ...]) -> str:
    """The checkpoint name of a missing part, by the indices of one that is there."""
    carried = dict(zip(sorted(sibling.row.carried), re.findall(r"\d+", sibling.name), strict=False))
    for key, value in carried.items():
        pattern = pattern.replace(f"{{{key}}}", value)
    for index in stack:
        pattern = re.sub(r"{\w+}", str(index), pattern, count=1)
    return pattern


def _assembly(group: list[Match], checkpoint: Checkpoint) -> Assembly:
    ordered = sorted(group, key=lambda found: (found.stack, found.alternative))
    target = ordered[0].row.target
    assert isinstance(target, Target)
    parts = tuple(_part(checkpoint.tensors[found.source], target) for found in ordered)
    stacks = {found.stack for found in ordered}
    return Assembly(parts, len(stacks) if any(stacks) else None, target.values)


def _part(tensor: SourceTensor, target: Target) -> Part:
    every: Rows = ((0, tensor.shape[0]),)
    return Part(tensor, every if target.rows is None else target.rows(tensor.shape))


def _planned(
    name: str, group: list[Match], checkpoint: Checkpoint, entry: Entry, dtype: str
) -> PlannedTensor:
    assembly = _assembly(group, checkpoint)
    weight_format, arrays = stored_plainly(name, entry, dtype)
    [(array, spec)] = arrays.items()

    def pieces() -> Iterator[tuple[str, Piece]]:
        yield from ((array, piece) for piece in assembly.pieces(spec.dtype))

    def read(start: int, stop: int) -> np.ndarray:
        return assembly.changed(assembly.read(start, stop))

    return PlannedTensor(
        name=name,
        format=weight_format,
        shape=entry.shape,
        arrays=arrays,
        read=read,
        pieces=pieces,
        copied=assembly.copied(spec.dtype),
    )


def stored_plainly(
    name: str, entry: Entry, dtype: str
) -> tuple[WeightFormat | None, dict[str, ArraySpec]]:
    """The format and arrays of a tensor that is not quantised."""
    if not isinstance(entry, Matrix):
        return None, {name: ArraySpec(entry.dtype or dtype, entry.shape)}
    plain = FullPrecisionSpec(type="FullPrecisionSpec", layout=entry.layout)
    stored = plain.arrays(entry.shape, dtype, "group_major")
    return plain, {f"{name}.{suffix}": spec for suffix, spec in stored.items()}


def _rounded(
    stream: tuple[PlannedTensor, ...], assemblies: Mapping[str, Assembly]
) -> Iterator[tuple[str, tuple[str, str]]]:
    for planned in stream:
        assembly, dtype = assemblies[planned.name], _dtype(planned)
        for source in sorted(assembly.source_dtypes):
            if assembly.values is not None or not _holds(dtype, source):
                yield planned.name, (source, dtype)
                break


def _holds(wide: str, narrow: str) -> bool:
    """Whether every value of the second type is one of the first."""
    return np.can_cast(NUMPY_DTYPES[narrow], NUMPY_DTYPES[wide], "safe") or wide == narrow


def _mismatch(checkpoint: Checkpoint, problems: list[str]) -> TensorMismatch:
    return TensorMismatch(
        f"{checkpoint.name}: the checkpoint's tensors are not those of its config:",
        problems=sorted(problems),
        hint="a tensor that the model does not need must be named as unused by the family's table",
    )
