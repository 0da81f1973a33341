"""The checkpoint tensors that make one stored array: their order, and what can be wrong."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from masu.converter.assembly import Assembly, Part
from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.table import Match, Rows, Target
from masu.converter.views import flattened
from masu.specs.errors import TensorMismatch
from masu.specs.tensors import Shape

Entries = list[list[Part]]
"""The parts of every entry of the first axis (an expert); of the whole array if none is stacked."""

NAMED = 4
"""Tensors that a message names before it only counts them."""


@dataclass(frozen=True)
class Group:
    """All matches of a table that lead to one array, in any order."""

    matches: Sequence[Match]
    checkpoint: Checkpoint

    def assembly(self) -> Assembly:
        """The parts in their order: row by row, expert by expert, alternative by alternative.

        Raises:
            TensorMismatch: a view does not fit its tensor.
        """
        entries = self._entries()
        parts = tuple(part for entry in entries for part in entry)
        targets = [_target(found) for found in self.matches]
        is_stacked = any(found.stack for found in self.matches)
        is_stacked = is_stacked or any(target.packed or target.after for target in targets)
        return Assembly(parts, len(entries) if is_stacked else None, targets[0].values)

    def problems(self, name: str, shape: Shape, dtypes: Collection[str]) -> Iterator[str]:
        """Why these tensors do not make the array `name` of this shape.

        Args:
            dtypes: what they may be stored in.
        """
        places = [_target(found).after for found in {f.row: f for f in self.matches}.values()]
        if len(set(places)) < len(places):
            sources = ", ".join(sorted(found.source for found in self.matches))
            yield f"ambiguous   {name}: made by {sources}"
        elif len({_target(found).values for found in self.matches}) > 1:
            yield f"ambiguous   {name}: its rows of the table change values, each in its own way"
        elif absent := list(self._absent()):
            yield from (f"missing     {source} (for {name})" for source in absent)
        else:
            yield from self._misfits(name, shape, dtypes)

    def _misfits(self, name: str, shape: Shape, dtypes: Collection[str]) -> Iterator[str]:
        try:
            entries = self._entries()
        except TensorMismatch as error:
            yield f"shape       {error.message}"
            return
        tensors = {part.tensor.name: part.tensor for entry in entries for part in entry}.values()
        odd = [tensor for tensor in tensors if tensor.dtype not in dtypes]
        expected = "floats" if len(dtypes) > 1 else "".join(dtypes)
        yield from (f"type        {t.name}: expected {expected}, found {t.dtype}" for t in odd)
        if len({tensor.shape[1:] for tensor in tensors}) > 1:
            yield f"shape       {name}: its parts differ in width: {self._made}"
        elif len({sum(part.num_rows for part in entry) for entry in entries}) > 1:
            yield f"shape       {name}: its experts differ in rows: {self._made}"
        elif (found := self.assembly().shape) != shape:
            found, wanted = list(found), list(shape)
            yield f"shape       {name}: expected {wanted}, found {found} from {self._made}"

    @property
    def _made(self) -> str:
        """The tensors with their shapes, for messages."""
        tensors = [self.checkpoint.tensors[found.source] for found in self.matches]
        more = f" and {len(tensors) - NAMED} more" if len(tensors) > NAMED else ""
        return ", ".join(f"{t.name} {list(t.shape)}" for t in tensors[:NAMED]) + more

    def _entries(self) -> Entries:
        ordered = sorted(
            self.matches,
            key=lambda found: (_target(found).after, found.stack, found.alternative),
        )
        stacks = groupby(ordered, key=lambda found: (_target(found).after, found.stack))
        return [entry for _, found in stacks for entry in self._of_one_stack(list(found))]

    def _of_one_stack(self, matches: Sequence[Match]) -> Entries:
        """The alternatives of one index, side by side: one entry, or one for each packed expert."""
        tensors = [self.seen(found) for found in matches]
        seen = list(zip(matches, tensors, strict=True))
        if not _target(matches[0]).packed:
            return [[Part(tensor, _rows(found, tensor.shape)) for found, tensor in seen]]
        if len({tensor.shape[:1] for tensor in tensors}) > 1:
            shapes = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in tensors)
            raise TensorMismatch(f"expected as many experts in each, found {shapes}")
        experts = [_packed_parts(found, tensor) for found, tensor in seen]
        return [list(expert) for expert in zip(*experts, strict=True)]

    def seen(self, found: Match) -> SourceTensor:
        """The tensor of a match, as its table row sees it."""
        tensor = self.checkpoint.tensors[found.source]
        view = _target(found).view_of(found.alternative)
        if not tensor.shape:
            raise TensorMismatch(f"{tensor.name}: expected at least one axis, found a scalar")
        return tensor if view is None else view(tensor)

    def _absent(self) -> Iterator[str]:
        """Alternatives of a row that are missing beside those that are there, stack by stack."""
        for row in {found.row for found in self.matches}:
            own = [found for found in self.matches if found.row == row]
            present = {(found.stack, found.alternative) for found in own}
            stacks = {found.stack for found in own}
            if any(stacks) and all(len(stack) == 1 for stack in stacks):
                stacks |= {(index,) for index in range(max(stack[0] for stack in stacks) + 1)}
            for stack in sorted(stacks):
                for alternative, source in enumerate(row.sources):
                    if (stack, alternative) not in present:
                        yield _named(source, own[0], stack)


def _target(found: Match) -> Target:
    assert isinstance(found.row.target, Target)
    return found.row.target


def _rows(found: Match, shape: Shape) -> Rows:
    """The wanted rows of a tensor, or of each of its packed experts."""
    order = _target(found).row_order(found.alternative)
    return ((0, shape[0]),) if order is None else order(shape)


def _packed_parts(found: Match, tensor: SourceTensor) -> list[Part]:
    """One part for each expert."""
    flat = flattened(tensor)
    experts, height = tensor.shape[:2]
    rows = _rows(found, tensor.shape[1:])
    return [
        Part(flat, tuple((start + first, stop + first) for start, stop in rows))
        for first in range(0, experts * height, height)
    ]


def _named(pattern: str, sibling: Match, stack: tuple[int, ...]) -> str:
    """The checkpoint name of a missing part, by the indices of one that is there."""
    carried = dict(zip(sorted(sibling.row.carried), re.findall(r"\d+", sibling.name), strict=False))
    for key, value in carried.items():
        pattern = pattern.replace(f"{{{key}}}", value)
    for index in stack:
        pattern = re.sub(r"{\w+}", str(index), pattern, count=1)
    return pattern
