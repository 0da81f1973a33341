"""Edits of a package that keep every name, shape and dtype: only the numbers can tell."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from package_copies import Weights, edit_config, edit_weights

LAYERS = "decoder.transformer.layers"

DTYPES = {"U8": np.uint8, "F32": np.float32, "BF16": np.uint16}
"""bfloat16 as its bits: faults move them, or flip the first."""


@dataclass(frozen=True)
class Fault:
    """Attributes:
    apply: edits the package at a path.
    block: the first block that is no longer what it was.
    """

    apply: Callable[[Path], None]
    block: str


def rewritten(block: int, *parts: str, edit: Callable[..., Any]) -> Fault:
    """`edit` gets the named arrays of a layer, and returns as many."""
    names = [f"{LAYERS}.{block}.{part}" for part in parts]

    def change(weights: Weights) -> None:
        entries = [weights.entries[name] for name in names]
        arrays = [
            np.frombuffer(weights.data[name], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in zip(names, entries, strict=True)
        ]
        for name, array in zip(names, edit(*(array.copy() for array in arrays)), strict=True):
            weights.data[name] = array.tobytes()

    return Fault(lambda folder: edit_weights(folder, change), f"{LAYERS}.{block}")


def layers_swapped(folder: Path) -> None:
    def change(weights: Weights) -> None:
        for name in [name for name in weights.data if name.startswith(f"{LAYERS}.0.")]:
            other = name.replace(f"{LAYERS}.0.", f"{LAYERS}.1.")
            weights.data[name], weights.data[other] = weights.data[other], weights.data[name]

    edit_weights(folder, change)


def in_every_layer(*path: str, by: float, default: float | None = None) -> Fault:
    """A number of every layer's config times `by`; null becomes `default`."""

    def change(config: dict[str, Any]) -> None:
        for layer in config["decoder_config"]["transformer_config"]["layer_configs"]:
            inner, key = layer, path[-1]
            for outer in path[:-1]:
                inner = inner[outer]
            inner[key] = default if inner[key] is None else type(inner[key])(inner[key] * by)

    return Fault(lambda folder: edit_config(folder, change), f"{LAYERS}.0")


def first_sign(array: np.ndarray) -> tuple[np.ndarray]:
    array[3, 5] ^= 1 << 15
    return (array,)


def rows(first: slice, second: slice) -> Callable[[np.ndarray], tuple[np.ndarray]]:
    def swap(array: np.ndarray) -> tuple[np.ndarray]:
        array[first], array[second] = array[second].copy(), array[first].copy()
        return (array,)

    return swap


def negated(place: slice) -> Callable[[np.ndarray], tuple[np.ndarray]]:
    def negate(array: np.ndarray) -> tuple[np.ndarray]:
        array[place] ^= 1 << 15
        return (array,)

    return negate


def noisy(array: np.ndarray) -> tuple[np.ndarray]:
    values = (array.astype(np.uint32) << 16).view(np.float32)
    values = values * (1 + 0.02 * np.random.default_rng(0).standard_normal(values.shape))
    return ((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),)


def one_code(array: np.ndarray) -> tuple[np.ndarray]:
    array[7, 3] ^= 1
    return (array,)


def first_scale(array: np.ndarray) -> tuple[np.ndarray]:
    array[1, 4] ^= 1 << 15
    return (array,)


OUT, UP = "mixer.out_projection.weights", "mlp.up_projection.weights"
QKV, DOWN = "mixer.qkvg_projection.weights", "mlp.down_projection.weights"

ANY: dict[str, Fault] = {
    "two layers swapped": Fault(layers_swapped, f"{LAYERS}.0"),
    "another rope base": in_every_layer("rope_config", "base", by=1.01),
    "another epsilon": in_every_layer("pre_mixer_norm_config", "epsilon", by=2),
    "another attention scale": in_every_layer("mixer_config", "scale", by=1.02, default=0.26),
}

PLAIN: dict[str, Fault] = {
    "queries and keys swapped": rewritten(
        1, f"{QKV}.weights", edit=rows(slice(0, 32), slice(64, 96))
    ),
    "a matrix from another layer": rewritten(0, f"{DOWN}.weights", edit=lambda a: (a[::-1],)),
    "one sign flipped": rewritten(1, f"{DOWN}.weights", edit=first_sign),
    "one head negated": rewritten(1, f"{QKV}.weights", edit=negated(slice(16, 32))),
    "rows permuted": rewritten(0, f"{OUT}.weights", edit=rows(slice(0, 1), slice(1, 2))),
    "gate and up swapped": rewritten(1, f"{UP}.weights", edit=rows(slice(0, 128), slice(128, 256))),
    "2 % noise in one matrix": rewritten(1, f"{UP}.weights", edit=noisy),
    "norms swapped": rewritten(
        1, "pre_mixer_norm.scales", "pre_mlp_norm.scales", edit=lambda a, b: (b, a)
    ),
}

QUANTISED: dict[str, Fault] = {
    "scales shifted by one group": rewritten(
        1, f"{DOWN}.scales", edit=lambda a: (np.roll(a, 1, axis=0),)
    ),
    "one code by one": rewritten(1, f"{DOWN}.weights", edit=one_code),
    "codes of two rows swapped": rewritten(
        0, f"{OUT}.weights", edit=rows(slice(0, 1), slice(1, 2))
    ),
    "one scale's sign": rewritten(1, f"{OUT}.scales", edit=first_scale),
}

CONFIG: dict[str, tuple[str, Fault]] = {
    "window": ("gemma2", in_every_layer("mixer_config", "sliding_window_size", by=0.5)),
    "soft cap": ("gemma2", in_every_layer("mixer_config", "logit_soft_cap", by=1.02)),
    "rope factor": ("llama", in_every_layer("rope_config", "scaling_factor", by=0.5)),
}
"""With the package they are faults of."""
