"""What an independent model computed on its way from ids to logits, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Trace:
    """One sequence.

    Attributes:
        ids: `[tokens]`.
        given: what each layer got, `[tokens, width]`, in order; then what the exit got.
        made: what each layer made of it.
        logits: `[tokens, vocab]`, of a classifier `[labels]`.
    """

    ids: np.ndarray
    given: Sequence[np.ndarray]
    made: Sequence[np.ndarray]
    logits: np.ndarray
