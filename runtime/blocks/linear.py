"""A projection: a weight matrix and perhaps a bias vector."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.loader import Loader
from masu.runtime.weights import Weight


class Linear(NamedTuple):
    """`weights` `[out, in]`, wide `biases` `[out]`."""

    weights: Weight
    biases: Array | None


def load(loader: Loader, rows: int, columns: int, *, has_biases: bool) -> Linear:
    return Linear(
        loader.matrix("weights", rows, columns),
        loader.vector("biases", (rows,)) if has_biases else None,
    )


def apply(backend: Backend, parameters: Linear, x: Array) -> Array:
    """`[..., in]` -> `[..., out]`."""
    return backend.linear(x, parameters.weights, parameters.biases)


def at(parameters: Linear, place: Array) -> Linear:
    """One projection of a stack: its matrix and its biases."""
    biases = parameters.biases
    return Linear(parameters.weights.at(place), None if biases is None else biases[place])
