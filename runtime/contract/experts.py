"""A stack of MLPs of which every row runs those that it chose."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masu.runtime.backend import Backend, wide_dtype
from masu.runtime.contract.operation import (
    FLOAT32,
    Arrays,
    Call,
    Given,
    Operation,
    Results,
    Sizes,
    Weights,
    half_unit,
    numbers,
)
from masu.runtime.contract.products import FORMATS
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import SiLU
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.linear import LinearConfig

CONFIG = DenseMLPConfig(
    type="DenseMLPConfig",
    linear_config=LinearConfig(),
    activation=SiLU(type="SiLU", alpha=1.0),
    has_up_biases=False,
    has_down_biases=False,
    gate_clipping=None,
    up_clipping=(-2.0, 2.0),
)


class Experts(Operation):
    """`experts`; shapes are tokens, width, hidden width, experts, and how many a token runs."""

    operation = "experts"
    edges = ((1, 32, 48, 2, 1), (5, 48, 64, 5, 3), (33, 64, 32, 4, 2))
    whole = (4, 64, 64, 4, 2)
    row_arrays = ("x", "chosen", "weights")
    rounds_between = True

    def __init__(self, label: str) -> None:
        self.label = label

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        tokens, width, hidden, count, active = shape
        draw = np.random.default_rng(5)
        chosen = np.array([draw.permutation(count)[:active] for _ in range(tokens)], np.int32)
        shares = np.abs(numbers("shares", (tokens, active), wide_dtype(dtype))) / active
        return Call(
            {
                "x": numbers("x", (tokens, width), dtype),
                "chosen": chosen.reshape(tokens, active),
                "weights": shares,
            },
            (self._stack((count, 2 * hidden, width)), self._stack((count, width, hidden))),
        )

    def _stack(self, shape: Sizes) -> Weight:
        form, dtype = FORMATS[self.label]
        values = numbers((self.label, shape), shape, FLOAT32) / np.float32(np.sqrt(shape[-1]))
        return Weight(form, form.encode(values, dtype, "group_major"), shape, "group_major")

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        up, down = weights
        chosen, shares = given["chosen"], given["weights"]
        return (backend.experts(given["x"], up, None, down, None, CONFIG, chosen, shares),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Two products of up to 64 columns in float32, six roundings in between and after."""
        units = 64 * half_unit(FLOAT32) + 6 * half_unit(dtype)
        return (np.full(wanted[0].shape, units * 3 * np.abs(wanted[0]).max(initial=1.0)),)

    def poisoned(self, call: Call) -> Iterator[Call]:
        """In one row: whatever that makes of it, the other rows are as before."""
        x = call.arrays["x"].copy()
        x[1, 3] = np.nan
        yield call.with_arrays(x=x)


OPERATIONS: tuple[Operation, ...] = (Experts("bfloat16"), Experts("MLX 4"))
