"""Token ids as they come from outside, checked once."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from masu.specs.errors import RequestError

TokenIds: TypeAlias = Sequence[int] | np.ndarray


def checked_ids(ids: TokenIds, vocab: int) -> np.ndarray:
    """The ids as int32 `[tokens]`.

    Raises:
        RequestError: no ids, not a sequence of integers, or one outside `0 .. vocab - 1`.
    """
    array = np.asarray(ids)
    if array.size == 0:
        raise RequestError("there are no token ids to run")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        shape = list(array.shape)
        raise RequestError(f"token ids must be one row of integers, found {array.dtype} {shape}")
    outside = np.flatnonzero((array < 0) | (array >= vocab))
    if outside.size:
        place = int(outside[0])
        raise RequestError(
            f"token id {array[place]} at place {place} is outside the vocabulary of {vocab}"
        )
    return array.astype(np.int32)
