"""Which layer does what to the stream: each by itself, and all of them together."""

from collections.abc import Iterable, Sequence

import numpy as np

from masu.runtime.model import PREFILL, Decoder
from masu.specs.report import LayerError


def layer_errors(
    package: Decoder, reference: Decoder, passages: Iterable[np.ndarray]
) -> tuple[LayerError, ...]:
    """Errors after the embedding and after each layer, over all tokens of the passages.

    The first `PREFILL` ids of each passage are read, by both models from nothing.

    A layer's own error is what it makes of the reference's stream: nothing that went wrong before
    it, and nothing that a later layer makes larger, so damage shows where it is. It is
    `|f(x) - g(x)| / |g(x) - x|` with `g` the reference's layer and `x` what that one gets; the
    accumulated error is `|y - z| / |z|` of the two streams. Both are means over tokens of ratios
    of Euclidean norms: some tokens have streams a thousand times longer than others, and would be
    all that one saw in a norm over the whole matrix.
    """
    ratios = [_ratios(package, reference, ids[:PREFILL]) for ids in passages]
    own, accumulated = np.concatenate(ratios, axis=-1).mean(axis=-1)
    return tuple(
        LayerError(name=name, own=float(alone), accumulated=float(together))
        for name, alone, together in zip(_names(reference), own, accumulated, strict=True)
    )


def _names(model: Decoder) -> Sequence[str]:
    root = model.config.ROOT
    layers = range(len(model.config.network.transformer_config.layer_configs))
    return [f"{root}.embedding", *(f"{root}.transformer.layers.{index}" for index in layers)]


def _ratios(package: Decoder, reference: Decoder, ids: np.ndarray) -> np.ndarray:
    """`[2, stages, tokens]`: own and accumulated errors."""
    streams = reference.streams(ids)
    theirs, together = _wide(streams), _wide(package.streams(ids))
    alone = _wide(package.streams(ids, given=streams[:-1]))
    added = np.concatenate([theirs[:1], np.diff(theirs, axis=0)])
    return np.stack([_lengths(alone - theirs, added), _lengths(together - theirs, theirs)])


def _wide(streams: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(streams).astype(np.float64)


def _lengths(difference: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of each token the length of the difference over the expected one."""
    norm = np.linalg.norm(expected, axis=-1)
    return np.linalg.norm(difference, axis=-1) / np.maximum(norm, np.finfo(np.float32).tiny)
