"""How far one prediction is from another, position by position, from two blocks of logits."""

from typing import NamedTuple

import numpy as np

from masu.specs.errors import TensorMismatch

ROWS = 16
"""Positions worked on at once: with 262,144 tokens 32 MB for each float64 intermediate."""


class Divergence(NamedTuple):
    """Of each position, `[positions]`.

    Attributes:
        kl: KL(reference || package) in nats, float64.
        loss: `-ln p(target)` of the package, `reference_loss` of the reference, float64.
        choice, reference_choice: the most likely token, int64; the lowest id on ties.
        confidence, reference_confidence: its probability, float64.
    """

    kl: np.ndarray
    loss: np.ndarray
    reference_loss: np.ndarray
    choice: np.ndarray
    reference_choice: np.ndarray
    confidence: np.ndarray
    reference_confidence: np.ndarray


def divergence(reference: np.ndarray, package: np.ndarray, targets: np.ndarray) -> Divergence:
    """Compare logits `[positions, vocab]` that predict the ids `targets` `[positions]`.

    `KL(P || Q) = sum_v P(v) (ln P(v) - ln Q(v))` (Kullback and Leibler 1951), in float64: for a
    good package the two logarithms agree in their first digits, and float32 would lose the rest.

    Raises:
        TensorMismatch: logits that are not finite.
    """
    blocks = [slice(at, at + ROWS) for at in range(0, len(targets), ROWS)]
    parts = [_of_block(reference[b], package[b], targets[b]) for b in blocks]
    return joined(parts)


def joined(parts: list[Divergence]) -> Divergence:
    """Those of several stretches of a text, one after the other."""
    return Divergence(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _of_block(reference: np.ndarray, package: np.ndarray, targets: np.ndarray) -> Divergence:
    p = log_softmax(reference, "the reference")
    q = log_softmax(package, "the package")
    rows = np.arange(len(targets))
    choice, reference_choice = q.argmax(axis=-1), p.argmax(axis=-1)
    loss, reference_loss = -q[rows, targets], -p[rows, targets]
    confidence = np.exp(q[rows, choice])
    reference_confidence = np.exp(p[rows, reference_choice])
    np.subtract(p, q, out=q)
    kl = np.einsum("pv,pv->p", np.exp(p, out=p), q)
    # Never negative, but for rounding.
    kl = np.maximum(kl, 0)
    return Divergence(
        kl, loss, reference_loss, choice, reference_choice, confidence, reference_confidence
    )


def log_softmax(logits: np.ndarray, whose: str) -> np.ndarray:
    if not np.isfinite(logits).all():
        raise TensorMismatch(
            f"{whose} computes logits that are not finite, so nothing can be compared",
            hint="its weights hold NaN or infinity, or are far too large",
        )
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted
