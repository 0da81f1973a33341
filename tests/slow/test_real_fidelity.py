"""Fidelity of a real model on the default backend: it falls with bits, and damage is found."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from dequantised_models import SMOLLM2
from package_copies import Weights, edit_weights

import masu
from masu.fidelity import measure_package
from masu.quantizers.text import evaluation_text
from masu.specs.recipe import Recipe, Rule

pytestmark = pytest.mark.nightly

CHOICES = {
    8: {"type": "IntSpec", "bits": 8, "group_size": 32, "is_symmetric": False},
    4: {"type": "IntSpec", "bits": 4, "group_size": 64, "is_symmetric": False},
    3: {"type": "LloydMaxSpec", "bits": 3, "group_size": 32, "bias_bits": None},
}
"""Groups of 64 at 4 bits: the model's own lie in 32, which would come out of this unharmed."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "package"
    return masu.convert(SMOLLM2.source, folder, verify=False).path


@pytest.fixture(scope="module")
def eight_bits(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return quantised(whole, tmp_path_factory.mktemp("eight") / "package", CHOICES[8])


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 130 tokens: enough to tell the packages apart."""
    path = tmp_path_factory.mktemp("text") / "beginning.txt"
    path.write_text(evaluation_text()[:500])
    return path


def quantised(whole: Path, out: Path, choice: dict) -> Path:
    """The layers in this format; the table, a fifth of the model, stays as it is."""
    rules = (Rule(match="*", format=choice), Rule(match="embedding", format=None))
    return masu.quantize(whole, out, Recipe(name="test", description="", rules=rules)).path


def test_divergence_rises_as_bits_fall(
    whole: Path, eight_bits: Path, text: Path, tmp_path: Path
) -> None:
    fewer = [quantised(whole, tmp_path / str(bits), CHOICES[bits]) for bits in (4, 3)]
    found = [measure_package(each, whole, text=text) for each in (eight_bits, *fewer)]
    divergences = [each.mean_kl for each in found]
    assert 0 < divergences[0] < divergences[1] / 10
    assert divergences[1] < divergences[2]
    agreements = [each.top1_agreement for each in found]
    assert agreements == sorted(agreements, reverse=True)


def test_a_damaged_layer_is_on_top_of_the_list(
    whole: Path, eight_bits: Path, text: Path, tmp_path: Path
) -> None:
    """5 % more on every scale of layer 17 of an 8-bit package."""
    folder = Path(shutil.copytree(eight_bits, tmp_path / "package"))

    def damage(weights: Weights) -> None:
        for name, data in weights.data.items():
            if ".layers.17." in name and name.endswith(".scales"):
                bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
                larger = (bits.view(np.float32) * np.float32(1.05)).view(np.uint32)
                weights.data[name] = ((larger + 0x8000) >> 16).astype(np.uint16).tobytes()

    edit_weights(folder, damage)
    found = measure_package(folder, whole, text=text)
    own = sorted(found.layers, key=lambda each: -each.own)
    assert own[0].name == "decoder.transformer.layers.17"
    assert own[0].own > 3 * own[1].own
    matrices = sorted(found.matrices, key=lambda each: -each.error)[:4]
    assert all(".layers.17." in each.name for each in matrices)
