"""The `consistent` verdict: it passes what is right, and each planted fault makes it fail."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import GOLDEN
from package_copies import edit_config, edit_weights

import masu.pipeline
from masu.specs.errors import VerdictError

SOURCE = GOLDEN / "llama" / "hf"
MATRIX = "decoder.transformer.layers.1.mlp.down_projection.weights.weights"
FUSED = "decoder.transformer.layers.0.mixer.qkvg_projection.weights.weights"


def bfloat16(data: bytes) -> np.ndarray:
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


def as_bytes(values: np.ndarray) -> bytes:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()


def change(name: str, edit: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Rewrite one stored array of a package."""

    def apply(folder: Path) -> None:
        def rewrite(weights: Any) -> None:
            weights.data[name] = as_bytes(edit(bfloat16(weights.data[name])))

        edit_weights(folder, rewrite)

    return apply


def flip_largest_sign(values: np.ndarray) -> np.ndarray:
    flipped = values.copy()
    flipped[np.abs(values).argmax()] *= -1
    return flipped


def keys_before_queries(values: np.ndarray) -> np.ndarray:
    rows = values.reshape(-1, 64)
    return np.concatenate([rows[32:64], rows[:32], rows[64:]]).reshape(-1)


def other_rope(config: dict[str, Any]) -> None:
    for layer in config["decoder_config"]["transformer_config"]["layer_configs"]:
        layer["rope_config"]["base"] *= 1.01


FAULTS: dict[str, Callable[[Path], None]] = {
    "2 % error in one matrix": change(MATRIX, lambda values: values * np.float32(1.02)),
    "one flipped sign": change(MATRIX, flip_largest_sign),
    "rows in another order": change(FUSED, keys_before_queries),
    "zeroed matrix": change(MATRIX, np.zeros_like),
    "not a number": change(MATRIX, lambda values: np.where(values > 0, np.nan, values)),
    "config with another rope base": lambda folder: edit_config(folder, other_rope),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_fails_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = masu.pipeline.write_package

    def damaged(folder: Path, *args: Any, **kwargs: Any) -> Any:
        manifest = write(folder, *args, **kwargs)
        FAULTS[name](folder)
        return manifest

    monkeypatch.setattr(masu.pipeline, "write_package", damaged)
    layer = 0 if name in ("rows in another order", "config with another rope base") else 1
    with pytest.raises(VerdictError, match=f"does not compute.*layers.{layer} diverges by"):
        masu.pipeline.convert(SOURCE, tmp_path / "package")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_honest_conversion_passes(dtype: str, tmp_path: Path) -> None:
    finished = masu.pipeline.convert(SOURCE, tmp_path / "package", dtype=dtype)
    assert finished.verdict is not None
    assert finished.verdict.passed
    assert (finished.verdict.rounding > 0) == (dtype == "float16")  # the source is bfloat16
    assert sorted(path.name for path in (tmp_path / "package").iterdir()) == [
        "config.json",
        "fingerprints.json",
        "manifest.json",
        "model.safetensors",
        "report.json",
        "tokenizer.json",
    ]
