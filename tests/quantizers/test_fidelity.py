"""Fidelity: the figures are those of plain formulas, rise as bits fall, and find planted damage."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import GOLDEN
from independent_decoder import decode
from package_copies import Weights, copy_package, edit_weights
from shared_backends import shared_backend

import masu
from masu.quantizers.fidelity import WORST, Reference, measure
from masu.quantizers.text import calibration_text, evaluation_text
from masu.quantizers.windows import WINDOW, NamedText
from masu.runtime.reference import reference_logits
from masu.specs.errors import RequestError, TensorMismatch
from masu.specs.package import Package
from masu.specs.recipe import Recipe, Rule
from masu.specs.report import Fidelity
from masu.specs.text.tokenizer import PackageTokenizer

LONG = NamedText("long", evaluation_text()[:900])
"""More tokens than one window holds, for the golden models' small vocabularies."""
SHORT = NamedText("short", evaluation_text()[:150])


def package(case: str) -> Package:
    return Package.open(GOLDEN / case / "engine")


def measured(folder: Path | Package, reference: str, text: NamedText = SHORT) -> Fidelity:
    """In float64, without a compiler."""
    found = folder if isinstance(folder, Package) else Package.open(folder)
    whole = Reference.of_package(package(reference))
    return measure(found, whole, text, dtype="float64", backend=shared_backend("numpy"))


def quantised(case: str, target: Path, choice: dict[str, Any]) -> Path:
    """All matrices of a golden package in one format, its embedding left as it is."""
    rules = (Rule(match="*", format=choice), Rule(match="embedding", format=None))
    recipe = Recipe(name="test", description="", rules=rules)
    return masu.quantize(GOLDEN / case / "engine", target, recipe).path


def test_figures_are_those_of_plain_formulas() -> None:
    """Of the logits of whole windows, where `measure` runs both models in chunks."""
    ours, theirs = package("llama-mlx-4bit-g64"), package("llama")
    found = measured(ours, "llama", LONG)
    ids = PackageTokenizer.open(ours.path / "tokenizer.json").encode(LONG.text)
    known = [token for token in ids if token < 320]
    kls, losses, their_losses, same, places = [], [], [], [], []
    for start in (0, WINDOW):
        window = known[start : start + WINDOW]
        places += range(start + 1, start + len(window))
        p, q = (_probabilities(reference_logits(model, window)) for model in (theirs, ours))
        kls += [float((a * np.log(a / b)).sum()) for a, b in zip(p[:-1], q[:-1], strict=True)]
        same += list(p[:-1].argmax(-1) == q[:-1].argmax(-1))
        losses += [-np.log(row[t]) for row, t in zip(q, window[1:], strict=False)]
        their_losses += [-np.log(row[t]) for row, t in zip(p, window[1:], strict=False)]
    expected = [np.mean(kls), np.percentile(kls, 99), np.exp(np.mean(losses)),
                np.exp(np.mean(their_losses))]  # fmt: skip
    figures = [found.mean_kl, found.p99_kl, found.perplexity, found.reference_perplexity]
    # Float64; one position too many or too few moves the mean by 1e-3.
    np.testing.assert_allclose(figures, expected, rtol=1e-6)
    assert found.top1_agreement == pytest.approx(np.mean(same))
    assert found.text.positions == len(kls)
    assert (found.text.windows, found.text.left_out) == (2, len(ids) - len(known))
    worst = sorted(zip(kls, places, strict=True), reverse=True)[:WORST]
    largest = [kl for kl, _ in worst]
    np.testing.assert_allclose([each.kl for each in found.worst], largest, rtol=1e-6)
    assert [each.position for each in found.worst] == [place for _, place in worst]


def _probabilities(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_a_package_beside_itself_is_without_error() -> None:
    found = measured(package("llama"), "llama")
    assert (found.mean_kl, found.p99_kl, found.top1_agreement) == (0.0, 0.0, 1.0)
    assert found.perplexity == found.reference_perplexity
    assert {each.error for each in found.matrices} == {0.0}
    assert {each.accumulated for each in found.layers} == {0.0}


def test_divergence_rises_as_bits_fall(tmp_path: Path) -> None:
    grid = {"type": "IntSpec", "group_size": 32, "is_symmetric": False}
    three = {"type": "LloydMaxSpec", "bits": 3, "group_size": 32, "bias_bits": None}
    choices = {8: {**grid, "bits": 8}, 4: {**grid, "bits": 4}, 3: three}
    found = [
        measured(quantised("qwen3", tmp_path / str(bits), choice), "qwen3")
        for bits, choice in choices.items()
    ]
    divergences = [each.mean_kl for each in found]
    assert 0 < divergences[0] < divergences[1] / 10
    assert divergences[1] < divergences[2]
    errors = [max(matrix.error for matrix in each.matrices) for each in found]
    assert errors == sorted(errors)
    sizes = [each.bits_per_weight for each in found]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_damaged_layer_is_on_top_of_the_list(tmp_path: Path, damaged: int) -> None:
    """5 % more on every scale of one layer of an 8-bit package."""
    grid = {"type": "IntSpec", "bits": 8, "group_size": 32, "is_symmetric": True}
    folder = quantised("qwen3", tmp_path / "package", grid)
    whole = measured(folder, "qwen3")

    def damage(weights: Weights) -> None:
        for name, data in weights.data.items():
            if f".layers.{damaged}." in name and name.endswith(".scales"):
                bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
                larger = (bits.view(np.float32) * np.float32(1.05)).view(np.uint32)
                weights.data[name] = ((larger + 0x8000) >> 16).astype(np.uint16).tobytes()

    edit_weights(folder, damage)
    found = measured(folder, "qwen3")
    name = f"decoder.transformer.layers.{damaged}"
    assert max(found.layers, key=lambda each: each.own).name == name
    assert {each.name.startswith(name) for each in found.matrices if each.error > 0.04} == {True}
    others = [each.name != name for each in found.layers]
    np.testing.assert_array_equal(
        np.array([each.own for each in found.layers])[others],
        np.array([each.own for each in whole.layers])[others],
    )  # what the others do by themselves is what it was


def test_errors_of_matrices_are_relative_norms() -> None:
    """Against plain loops that decode the stored codes, and the arrays of the other file."""
    ours, theirs = package("llama-mlx-4bit-g64"), package("llama")
    found = {each.name: each for each in measured(ours, "llama").matrices}
    assert found.keys() == ours.formats.keys()
    name = "decoder.transformer.layers.1.mlp.down_projection.weights"
    spec = ours.formats[name].model_dump()
    arrays = {part: ours.read(f"{name}.{part}") for part in ("weights", "scales", "biases")}
    exact = theirs.read(f"{name}.weights").astype(np.float64)
    decoded = decode(arrays, spec, exact.shape, ours.planes)
    expected = np.linalg.norm(decoded - exact) / np.linalg.norm(exact)
    assert found[name].error == pytest.approx(expected, rel=1e-5)
    assert found[name].bytes == sum(array.nbytes for array in arrays.values())
    assert found[name].bits_per_weight == pytest.approx(8 * found[name].bytes / exact.size)


def test_an_untied_table_is_compared_with_the_tied_one(tmp_path: Path) -> None:
    grid = {"type": "MLXSpec", "bits": 4, "group_size": 32}
    rules = (Rule(match="embedding", format=grid), Rule(match="readout", format=None))
    recipe = Recipe(name="test", description="", untie=True, rules=rules)
    folder = masu.quantize(GOLDEN / "llama-tied/engine", tmp_path / "package", recipe).path
    found = measured(folder, "llama-tied")
    errors = {each.name: each.error for each in found.matrices}
    assert 0.02 < errors["decoder.embedding.input_embedding"] < 0.2
    assert errors["decoder.embedding.output_embedding"] == 0
    assert found.layers[0].own == found.layers[0].accumulated > 0.02


def test_the_text_is_named_and_hashed() -> None:
    found = measured(package("llama"), "llama").text
    assert found.name == "short"
    assert found.sha256 == hashlib.sha256(SHORT.text.encode()).hexdigest()


def test_worst_positions_show_the_text_as_it_stands() -> None:
    ids = PackageTokenizer.open(GOLDEN / "llama/engine/tokenizer.json")
    found = measured(package("llama-int4-g32-sym"), "llama")
    assert len(found.worst) == WORST
    for each in found.worst:
        assert f"{each.before}{each.token}{each.after}" in SHORT.text
        assert ids.encode(SHORT.text)[each.position] == ids.encode(each.token)[0]


def test_another_model_is_no_reference() -> None:
    with pytest.raises(RequestError, match=r"384 .* 320"):
        measured(package("llama-tied"), "llama")
    with pytest.raises(RequestError, match="ClassifierModelConfig"):
        measured(package("modernbert"), "llama")


def test_a_text_of_one_token_is_too_short() -> None:
    with pytest.raises(RequestError, match="'tiny' is too short"):
        measured(package("llama"), "llama", NamedText("tiny", "a"))


def test_a_package_that_computes_no_numbers_is_not_measured(tmp_path: Path) -> None:
    def damage(weights: Weights) -> None:
        name = "decoder.transformer.output_norm.scales"
        weights.data[name] = b"\xff" * len(weights.data[name])  # NaN in every type

    folder = copy_package("llama", tmp_path)
    edit_weights(folder, damage)
    with pytest.raises(TensorMismatch, match="the package computes logits that are not finite"):
        measured(folder, "llama")


def test_the_two_texts_are_disjoint() -> None:
    """No run of eight words of the one is in the other."""
    first, second = (_runs(text()) for text in (evaluation_text, calibration_text))
    assert len(first) > 1000
    assert len(second) > 3000
    assert not first & second


def _runs(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + 8]) for at in range(len(words) - 7)}
