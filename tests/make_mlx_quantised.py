"""Writes fixtures/mlx_quantised.npz: what mlx.core.quantize makes of the matrices of mlx_matrices.

Needs only mlx and numpy: `python tests/make_mlx_quantised.py`. Made with MLX 0.32.4 on a
CPU. Codes are MLX's uint32 words; scales and biases are kept as the bits of their dtype.
"""

from pathlib import Path

import mlx.core as mx  # pyright: ignore[reportMissingImports]
import numpy as np
from mlx_matrices import BITS, DTYPES, GROUP_SIZES, matrices

MLX_DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
WORDS = {"F32": mx.uint32, "F16": mx.uint16, "BF16": mx.uint16}


def quantised(
    matrix: np.ndarray, dtype: str, group_size: int, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words of codes, and the bits of scales and biases."""
    stored = mx.array(matrix).astype(MLX_DTYPES[dtype])
    codes, scales, biases = mx.quantize(stored, group_size=group_size, bits=bits)
    word = WORDS[dtype]
    return np.array(codes), np.array(scales.view(word)), np.array(biases.view(word))


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    for dtype in DTYPES:
        for group_size in GROUP_SIZES:
            for bits in BITS:
                made = [quantised(m, dtype, group_size, bits) for m in matrices(dtype)]
                key = f"{dtype}-{group_size}-{bits}"
                names = ("codes", "scales", "biases")
                for name, parts in zip(names, zip(*made, strict=True), strict=True):
                    arrays[f"{key}-{name}"] = np.stack(parts)
    path = Path(__file__).with_name("fixtures") / "mlx_quantised.npz"
    np.savez_compressed(path, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
