"""Reads a package without running it: the tensors it holds, and one weight matrix decoded."""

from pathlib import Path

import numpy as np

import masu

PACKAGE = Path(__file__).parent.parent / "tests/golden/llama-int4-g32-sym/engine"


def main() -> None:
    package = masu.Package.open(PACKAGE)
    for name, array in package.tensors().items():
        print(f"{name:70} {array}")

    matrices = dict(package.config.tensors())
    path = "decoder.transformer.layers.0.mlp.down_projection.weights"
    spec = package.formats[path]
    shape = matrices[path].shape
    suffixes = spec.arrays(shape, package.dtype, package.planes)
    stored = {suffix: package.read(f"{path}.{suffix}") for suffix in suffixes}
    weights = spec.decode(stored, shape, package.planes, np.float32)
    print(f"{spec.to_json()}\n{weights.shape}, standard deviation {weights.std():.4f}")


if __name__ == "__main__":
    main()
