"""Decoded matrices are the very numbers that lalamo, MLX and AWQ decode from the same bytes."""

import numpy as np
import pytest
from format_cases import QUANTISED_CASES, agrees, golden_matrices
from golden import GOLDEN

CASES = [case for case in QUANTISED_CASES if (GOLDEN / case / "dequantised.npz").exists()]


@pytest.mark.parametrize("case", CASES)
def test_decoded_values(case: str) -> None:
    decoded = {matrix.path: matrix.decoded() for matrix in golden_matrices(case)}
    layouts = {matrix.path: matrix.spec.stored_layout for matrix in golden_matrices(case)}
    with np.load(GOLDEN / case / "dequantised.npz") as expected:
        assert expected.files
        for name, values in expected.items():
            if name in decoded:  # logical [out, in]
                found = decoded[name].T if layouts[name] == "input_output" else decoded[name]
                assert agrees(found, values.astype(np.float64), np.float32), name
            else:
                for part in _unfused(name, values):
                    assert _is_block_of_rows(part, list(decoded.values())), name


def _unfused(name: str, values: np.ndarray) -> list[np.ndarray]:
    """The runs of rows that stay together in a package: a gated query is split by head."""
    if "self_attn.q_proj" in name and name.startswith("language_model."):
        heads = values.reshape(4, 2, 32, -1)
        return [heads[:, 0].reshape(128, -1), heads[:, 1].reshape(128, -1)]
    return [values]


def _is_block_of_rows(part: np.ndarray, matrices: list[np.ndarray]) -> bool:
    """Checkpoints name each projection, packages stack some: consecutive rows of one matrix."""
    for matrix in matrices:
        if matrix.shape[-1] == part.shape[-1]:
            for first in np.flatnonzero((matrix == part[0]).all(-1)):
                if np.array_equal(matrix[first : first + len(part)], part):
                    return True
    return False
