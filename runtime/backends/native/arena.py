"""Memory for results that is given out again when nobody reads them any more.

A step reads all weights, and what it read a moment ago is soon out of the caches. Results in few
places stay in the nearest one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True)
class Life:
    """The first and the last call that touches a result, and its bytes."""

    first: int
    last: int
    size: int


def placed(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
    """Where each result begins, and the bytes that all need: no two that live at once meet."""
    stretches: dict[int, tuple[int, int]] = {}
    alive: list[int] = []
    for name, life in sorted(lives.items(), key=lambda item: item[1].first):
        alive = [other for other in alive if lives[other].last >= life.first]
        start = _first_gap(sorted(stretches[other] for other in alive), life.size)
        stretches[name] = start, start + -(-life.size // ALIGNMENT) * ALIGNMENT
        alive.append(name)
    size = max((end for _, end in stretches.values()), default=0)
    return {name: start for name, (start, _) in stretches.items()}, size


def _first_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest place with so many bytes free, among stretches in their order."""
    place = 0
    for start, end in taken:
        if place + size <= start:
            break
        place = max(place, end)
    return place
