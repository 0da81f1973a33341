"""Tied or untied: the config's flag and the tensors are compared, by content."""

from dataclasses import dataclass

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.specs.errors import TensorMismatch

ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Tie:
    """`duplicate`: the head is in the checkpoint but equal to the table, so it is not stored."""

    tied: bool
    duplicate: bool = False
    note: str | None = None


def settle_tie(flag: bool, table: SourceTensor, readout: SourceTensor | None) -> Tie:
    """Decide whether one table serves lookup and readout. It is never tied by absence.

    Raises:
        TensorMismatch: the flag says tied and the head differs, or untied and there is no head.
    """
    if readout is None:
        if flag:
            return Tie(tied=True)
        raise TensorMismatch(
            f"config.json says tie_word_embeddings false, and there is no output head beside "
            f"{table.name} in {table.location}",
            hint="set tie_word_embeddings to true if the model was trained so, "
            "or add the missing head",
        )
    if _equal(table, readout):
        said = "true" if flag else "false"
        note = f"{readout.name} equals {table.name} (the flag says {said}): stored once, tied"
        return Tie(tied=True, duplicate=True, note=note)
    if flag:
        raise TensorMismatch(
            f"config.json says tie_word_embeddings true, but {readout.name} in "
            f"{readout.location} differs from {table.name} in {table.location}",
            hint="set tie_word_embeddings to false to keep the head, or remove the head",
        )
    return Tie(tied=False)


def _equal(table: SourceTensor, readout: SourceTensor) -> bool:
    """Same shape and same values, read a block of rows at a time up to the first difference."""
    if table.shape != readout.shape:
        return False
    blocks = range(0, table.shape[0], ROWS_AT_ONCE)
    return all(
        np.array_equal(
            table.read(start, min(start + ROWS_AT_ONCE, table.shape[0])),
            readout.read(start, min(start + ROWS_AT_ONCE, table.shape[0])),
        )
        for start in blocks
    )
