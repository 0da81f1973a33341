"""From matched tensors to the planned stream; everything that can be wrong is found here."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from masu.converter.checkpoint import Checkpoint
from masu.converter.kept import KeptMaking
from masu.converter.making import Codes, Making, PlainMaking, making
from masu.converter.quantised.account import decoded_notes, kept_notes
from masu.converter.table import Match, Table, Unused, match, wanted_sources
from masu.specs.errors import TensorMismatch
from masu.specs.manifest import LedgerEntry
from masu.specs.stream import PlannedTensor
from masu.specs.tensors import Entry


@dataclass(frozen=True)
class TensorPlan:
    stream: tuple[PlannedTensor, ...]
    ledger: Mapping[str, LedgerEntry]
    rounded: Mapping[str, tuple[str, str]]
    """Engine tensors whose values lose precision: source type and stored type."""
    chunk_bytes: int
    """The most that any tensor holds in memory at a time while its values change."""
    notes: tuple[str, ...]
    """What became of matrices that were quantised already."""


@dataclass(frozen=True)
class Placing:
    """Where table targets go.

    Attributes:
        root: what every engine name begins with (`decoder`).
        renamed: targets of the table under another engine name, as the tie decides.
        dropped: targets that are not stored, with the reason.
    """

    root: str
    renamed: Mapping[str, str]
    dropped: Mapping[str, str]

    def name(self, target: str) -> str:
        """The full engine name of a table target."""
        return f"{self.root}.{self.renamed.get(target, target)}"

    def target(self, name: str) -> str:
        """The table target of a full engine name."""
        targets = {new: old for old, new in self.renamed.items()}
        relative = name.removeprefix(f"{self.root}.")
        return targets.get(relative, relative)


def plan_tensors(
    table: Table,
    checkpoint: Checkpoint,
    entries: Mapping[str, Entry],
    dtype: str,
    placing: Placing,
    codes: Codes,
) -> TensorPlan:
    """Plan exactly `entries` out of exactly the checkpoint, or say everything that is off.

    Args:
        table: the family's weight table; its engine names lack the root of `placing`.
        entries: what the config expects, by full engine name.
        dtype: the model's own element type in the package.
        codes: what becomes of matrices that are quantised already; the scales of those that are
            kept are read, to say how far they are rounded.

    Raises:
        TensorMismatch: missing, unexpected, ambiguous, mis-shaped or mis-typed tensors.
    """
    matches, problems = match(table, checkpoint.tensors)
    groups, ledger = _grouped(matches, checkpoint, placing)
    problems += _missing(table, entries, groups, placing)
    strays = groups.keys() - entries.keys()
    problems += [f"unmapped    {name}: not a tensor of this config" for name in strays]
    makings = {
        name: making(name, groups[name], checkpoint, entry, dtype, codes)
        for name, entry in entries.items()
        if name in groups
    }
    problems += [problem for made in makings.values() for problem in made.problems()]
    if problems:
        raise _mismatch(checkpoint, problems)
    chunk = max((made.chunk_bytes for made in makings.values()), default=0)
    rounded = {name: types for name, made in makings.items() if (types := made.rounded)}
    stream = tuple(made.planned() for made in makings.values())
    return TensorPlan(stream, ledger, rounded, chunk, _notes(makings.values(), dtype))


def _notes(makings: Collection[Making], dtype: str) -> tuple[str, ...]:
    kept = [made for made in makings if isinstance(made, KeptMaking)]
    plain = [made.decoded_from for made in makings if isinstance(made, PlainMaking)]
    return (*kept_notes(kept), *decoded_notes(filter(None, plain), dtype))


def _grouped(
    matches: list[Match], checkpoint: Checkpoint, placing: Placing
) -> tuple[dict[str, list[Match]], dict[str, LedgerEntry]]:
    """Matches by the engine tensor they make, and the ledger entry of every source tensor."""
    groups: dict[str, list[Match]] = defaultdict(list)
    ledger: dict[str, LedgerEntry] = {}
    for found in matches:
        entry = _unused(found, placing.dropped)
        if entry is None:
            name = placing.name(found.name)
            groups[name].append(found)
            entry = LedgerEntry(status="used", into=(name,), reason=None)
        for stored in checkpoint.parts.get(found.source, (found.source,)):
            ledger[stored] = _joined(ledger.get(stored), entry)
    return groups, ledger


def _joined(first: LedgerEntry | None, other: LedgerEntry) -> LedgerEntry:
    """What became of a stored tensor of which several are made: experts that are stacked."""
    if first is None or first.status != "used":
        return other
    into = dict.fromkeys((*first.into, *other.into))
    return first if other.status != "used" else first.model_copy(update={"into": tuple(into)})


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
    placing: Placing,
) -> Iterator[str]:
    """Engine tensors that nothing makes, named by what should have made them."""
    for name in entries.keys() - groups.keys():
        sources = wanted_sources(table, placing.target(name))
        origin = f" (for {name})" if sources else ""
        yield f"missing     {', '.join(sources) or name}{origin}"


def _mismatch(checkpoint: Checkpoint, problems: list[str]) -> TensorMismatch:
    kinds = {problem.split(maxsplit=1)[0] for problem in problems}
    surplus = (
        "config.json is that of a smaller model; or else a tensor that the model does not need "
        "must be named as unused by the family's table"
    )
    wrong = (
        "the weights are not whole, or config.json is that of another model: download both again, "
        "of one revision"
    )
    return TensorMismatch(
        f"{checkpoint.name}: the checkpoint's tensors are not those of its config:",
        problems=sorted(problems),
        hint=wrong if kinds <= {"missing", "shape"} else surplus,
    )
