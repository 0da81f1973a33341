"""What D4S4 costs and loses on a large table, beside a 2-bit Lloyd-Max scalar code.

    python benchmarks/d4s4.py --rows 150000 --width 2048
    python benchmarks/d4s4.py --table table.npy

The table is Gaussian, made in pieces as they are encoded, so that peak memory is the encoder's;
or it is a float32 matrix in a `.npy` file, which is mapped. Time is that of fitting and encoding,
without making or reading values. The scalar code gets the same rotated rows and the four levels
that are optimal for a unit normal (Max 1960), with its least squares scale for each 64 columns in
float64: 16 times the bits that D4S4 spends on scales. Errors are squared, relative to the energy.
"""

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from masu.specs.formats.d4s4 import D4S4Spec
from masu.specs.formats.d4s4_codebook import rotate, sample_rows

LEVELS = np.array([-1.5104, -0.4528, 0.4528, 1.5104])
CHUNK = 4096

Read = Callable[[np.ndarray], np.ndarray]


def scalar_error(rotated: np.ndarray) -> float:
    """Squared error of the scalar code; its scale and codes are refined together three times."""
    groups = rotated.reshape(-1, 64).astype(np.float64)
    scale = np.sqrt(np.square(groups).mean(axis=1, keepdims=True)) + 1e-300
    for _ in range(3):
        levels = LEVELS[np.digitize(groups / scale, [-0.9816, 0, 0.9816])]
        scale = (groups * levels).sum(1, keepdims=True) / np.square(levels).sum(1, keepdims=True)
        scale = np.maximum(scale, 1e-300)
    levels = LEVELS[np.digitize(groups / scale, [-0.9816, 0, 0.9816])]
    return float(np.square(groups - scale * levels).sum())


def gaussian(width: int) -> Read:
    """Row `i` of a table depends on `i` only through the piece of 4096 rows it lies in."""

    def read(rows: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(int(rows[0]))
        return rng.standard_normal((len(rows), width), np.float32) * np.float32(0.02)

    return read


def measure(rows: int, width: int, read: Read, threads: int | None) -> dict[str, float]:
    spec = D4S4Spec(type="D4S4Spec", layout="input_output")
    sample = read(sample_rows(rows, width))
    start = perf_counter()
    codebook = spec.fit(sample, threads)
    fitting = spent = perf_counter() - start
    energy = error = scalar = 0.0
    for first in range(0, rows, CHUNK):
        values = read(np.arange(first, min(first + CHUNK, rows)))
        start = perf_counter()
        arrays = spec.encode_rows(values, codebook, "BF16", threads)
        spent += perf_counter() - start
        if first // CHUNK % 8 == 0:  # errors on every eighth piece
            arrays |= spec.shared_arrays(codebook)
            decoded = spec.decode(arrays, values.shape, "group_major", np.float32)
            energy += float(np.square(values, dtype=np.float64).sum())
            error += float(np.square(values - decoded, dtype=np.float64).sum())
            scalar += scalar_error(rotate(values, codebook.factors))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": spent,
        "seconds of fitting": fitting,
        "MB/s of float32": rows * width * 4e-6 / spent,
        "peak MB": peak / (1 << 20 if sys.platform == "darwin" else 1 << 10),
        "error": error / energy,
        "error of 2-bit Lloyd-Max": scalar / energy,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--table", type=Path, help="a .npy file in the place of Gaussian rows")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    rows, width, read = options.rows, options.width, gaussian(options.width)
    if options.table:
        table = np.load(options.table, mmap_mode="r")
        (rows, width), read = table.shape, lambda rows: np.asarray(table[rows], np.float32)
    for name, value in measure(rows, width, read, options.threads).items():
        print(f"{name:26} {value:12.5g}")


if __name__ == "__main__":
    main()
