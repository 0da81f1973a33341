"""Rows exchanged so that the engine's rotation gives the scores of the checkpoint's."""

from collections.abc import Callable

import numpy as np
import pytest

from masu.converter.rotary_rows import halves_exchanged, neighbours_apart
from masu.converter.table import RowOrder, Target

HEADS, HEAD, WIDTH = 3, 12, 5
RANDOM = np.random.default_rng(0)


def exchanged(weights: np.ndarray, order: RowOrder) -> np.ndarray:
    return np.concatenate([weights[start:stop] for start, stop in order(weights.shape)])


def pairs(rotated: int) -> np.ndarray:
    return 10000.0 ** -(np.arange(0, rotated, 2) / rotated)


def by_halves(head: np.ndarray, position: int, rotated: int, sign: int = 1) -> np.ndarray:
    """The engine's rotation: channel i with channel i + rotated / 2."""
    angles = position * pairs(rotated) * sign
    first, second = head[: rotated // 2], head[rotated // 2 : rotated]
    turned = [
        first * np.cos(angles) - second * np.sin(angles),
        second * np.cos(angles) + first * np.sin(angles),
    ]
    return np.concatenate([*turned, head[rotated:]])


def by_neighbours(head: np.ndarray, position: int, rotated: int) -> np.ndarray:
    """GPT-J's rotation: channel 2i with channel 2i + 1, as complex numbers."""
    turned = head[:rotated:2] + 1j * head[1:rotated:2]
    turned = turned * np.exp(1j * position * pairs(rotated))
    flat = np.stack([turned.real, turned.imag], axis=1).reshape(-1)
    return np.concatenate([flat, head[rotated:]])


def scores(
    queries: np.ndarray, keys: np.ndarray, turn: Callable[[np.ndarray, int], np.ndarray]
) -> list[float]:
    """Of a query at 7 and a key at 3, for every head."""
    x, y = np.arange(2 * WIDTH).reshape(2, WIDTH)
    heads = zip((queries @ x).reshape(-1, HEAD), (keys @ y).reshape(-1, HEAD), strict=True)
    return [float(turn(query, 7) @ turn(key, 3)) for query, key in heads]


@pytest.mark.parametrize("rotated", [HEAD, 8])
def test_neighbours(rotated: int) -> None:
    queries, keys = RANDOM.standard_normal((2, HEADS * HEAD, WIDTH))
    order = neighbours_apart(HEAD, rotated)
    wanted = scores(queries, keys, lambda head, at: by_neighbours(head, at, rotated))
    found = scores(
        exchanged(queries, order),
        exchanged(keys, order),
        lambda head, at: by_halves(head, at, rotated),
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_halves() -> None:
    queries, keys = RANDOM.standard_normal((2, HEADS * HEAD, WIDTH))
    order = halves_exchanged(HEAD)
    wanted = scores(queries, keys, lambda head, at: by_halves(head, at, HEAD, sign=-1))
    found = scores(
        exchanged(queries, order),
        exchanged(keys, order),
        lambda head, at: by_halves(head, at, HEAD),
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("order", [neighbours_apart(HEAD, 8), halves_exchanged(HEAD)])
@pytest.mark.parametrize("rows", [0, 5, HEAD, 2 * HEAD - 1, 3 * HEAD])
def test_every_row_is_taken_once(order: RowOrder, rows: int) -> None:
    """Also of a tensor with too few rows, whose shape then is what it was: wrong."""
    taken = [row for start, stop in order((rows, WIDTH)) for row in range(start, stop)]
    assert sorted(taken) == list(range(rows))


def test_orders_for_alternatives() -> None:
    order = halves_exchanged(HEAD)
    assert [Target("x", rows=order).row_order(place) for place in range(2)] == [order, order]
    assert [Target("x", rows=(None, order)).row_order(place) for place in range(2)] == [None, order]
