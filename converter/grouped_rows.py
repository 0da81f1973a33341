"""Rows of a projection that alternate: part after part, in one group (a head) after the other."""

from collections.abc import Sequence

from masu.converter.table import RowOrder, Rows
from masu.specs.tensors import Shape


def every_part(sizes: Sequence[int], place: int) -> RowOrder:
    """The part at this place of every group, all together.

    Args:
        sizes: rows of each part of a group, in the checkpoint's order.
    """
    start, group = sum(sizes[:place]), sum(sizes)

    def order(shape: Shape) -> Rows:
        """A group that is cut short stays so, and is found out by the number of rows."""
        rows = shape[0]
        firsts = range(start, rows, group)
        return tuple((first, min(first + sizes[place], rows)) for first in firsts)

    return order


def parts(sizes: Sequence[int], places: Sequence[int]) -> RowOrder:
    """The parts of a projection that has only one group, in another order."""
    orders = [every_part(sizes, place) for place in places]
    return lambda shape: tuple(rows for order in orders for rows in order(shape))
