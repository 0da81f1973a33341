"""What mlx-lm quantises and what recipe `mlx-4bit` does are the same numbers, model by model."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN

import masu
from masu.quantizers.matrix_errors import matrix_errors
from masu.specs.package import Package

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["llama", "llama-tied", "gemma3-text"])
def test_matrices_decode_alike(name: str, tmp_path: Path) -> None:
    """`mlx_lm.convert -q` writes a checkpoint, masu a package; both decode, none may differ."""
    pytest.importorskip("mlx_lm")
    source = GOLDEN / name / "hf"
    command = [sys.executable, "-m", "mlx_lm", "convert", "-q", "--dtype", "bfloat16"]
    paths = ["--hf-path", source, "--mlx-path", tmp_path / "theirs"]
    done = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = masu.convert(tmp_path / "theirs", tmp_path / "converted", verify=False).path
    plain = masu.convert(source, tmp_path / "plain", verify=False).path
    ours = masu.quantize(plain, tmp_path / "ours", "mlx-4bit").path
    assert_same_matrices(Package.open(ours), Package.open(theirs))


def assert_same_matrices(ours: Package, theirs: Package) -> None:
    assert ours.formats == theirs.formats
    for name, spec in ours.container.tensors.items():
        assert spec.shape == theirs.container.tensors[name].shape
        np.testing.assert_array_equal(
            ours.container.read(name).view(np.uint8),
            theirs.container.read(name).view(np.uint8),
            name,
        )
    assert [each.error for each in matrix_errors(ours, theirs)] == [0.0] * len(ours.formats)
