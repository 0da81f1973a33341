"""Rows of query and key projections, so that the engine's pairs of channels are the checkpoint's.

The engine turns channel i together with channel `i + pairs` of a head. A checkpoint that pairs
its channels in another way is converted exactly, by exchanging rows of its projections: a score
is a sum over the channels of a head, and does not see their order.
"""

from collections.abc import Sequence

from masu.converter.table import RowOrder, Rows
from masu.specs.tensors import Shape


def neighbours_apart(head_dim: int, rotated: int) -> RowOrder:
    """For channels that are paired with their neighbours, 2i with 2i + 1 (GPT-J's rotation).

    Args:
        rotated: channels of a head, from its first, that are turned; the others stay.
    """
    even, odd = range(0, rotated, 2), range(1, rotated, 2)
    return _in_every_head([*((i, i + 1) for i in (*even, *odd)), (rotated, head_dim)])


def halves_exchanged(head_dim: int) -> RowOrder:
    """For heads that are turned the other way round: with their halves exchanged they are not."""
    half = head_dim // 2
    return _in_every_head([(half, head_dim), (0, half)])


def _in_every_head(ranges: Sequence[tuple[int, int]]) -> RowOrder:
    """The same order of rows in one head after the other."""
    head_dim = sum(stop - start for start, stop in ranges)

    def order(shape: Shape) -> Rows:
        """A head that is cut short stays so, and is found out by the number of rows."""
        rows = shape[0]
        wanted = (
            (head + start, min(head + stop, rows))
            for head in range(0, rows, head_dim)
            for start, stop in ranges
        )
        return tuple((start, stop) for start, stop in wanted if start < stop)

    return order
