"""Classifiers: texts of every length, pooling over what is there, labels and probabilities."""

import json
from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN
from package_copies import copy_package, edit_config
from shared_backends import shared_backend
from tensor_sources import Altered, edited

import masu
from masu.runtime.backends import backend_names
from masu.runtime.classifier import Classifier
from masu.runtime.encoder import Encoder, load_encoder
from masu.runtime.reference import reference_logits, reference_stages
from masu.specs.errors import RequestError
from masu.specs.package import Package

FOLDER = GOLDEN / "modernbert/engine"
LABELS = ("safe", "violence", "privacy", "health", "other")


@pytest.fixture(scope="module")
def package() -> Package:
    return Package.open(FOLDER)


def encoder(package: Package, backend: str) -> Encoder:
    return load_encoder(package, dtype="float32", backend=shared_backend(backend))


@pytest.fixture(scope="module")
def classifier(package: Package) -> Classifier:
    return Classifier(encoder(package, "numpy"), package)


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 130])
def test_padding_of_any_length_changes_nothing(package: Package, backend: str, tokens: int) -> None:
    """The reference has no padding; a padded row that took part would move the mean by 1/tokens.

    Float32 against float64, four layers deep: 1e-6 of the spread.
    """
    ids = np.random.default_rng(tokens).integers(0, 320, tokens)
    found, exact = encoder(package, backend).logits(ids), reference_logits(package, ids)
    assert (found.shape, found.dtype) == ((5,), np.float32)
    assert np.abs(found - exact).max() < 1e-5 * exact.std()


def test_pooling_by_the_first_token(package: Package) -> None:
    """As the mean over a text of one token, to which nothing else belongs."""
    by_first = edited(package.config, lambda each: each.update(classifier_pooling="cls"))
    source = Altered(package, by_first)
    model = load_encoder(source, dtype="float32", backend=shared_backend("jax"))
    one, many = [7], [7, 8, 9]
    assert np.abs(model.logits(one) - reference_logits(package, one)).max() < 1e-5
    assert np.abs(model.logits(many) - reference_logits(package, many)).max() > 1e-2
    assert np.abs(model.logits(many) - reference_logits(source, many)).max() < 1e-5


def test_later_tokens_are_seen_by_earlier_ones(package: Package) -> None:
    model = encoder(package, "numpy")
    assert np.abs(model.logits([1, 2, 3]) - model.logits([1, 2, 4])).max() > 1e-2


def test_stages_bear_the_classifier_s_names(package: Package) -> None:
    names = [name for name, _ in reference_stages(package, [1, 2])]
    layers = [f"classifier.transformer.layers.{index}" for index in range(4)]
    assert names == ["classifier.embedding", *layers, "logits"]


def test_a_text_longer_than_the_context_is_refused(package: Package) -> None:
    model = encoder(package, "numpy")
    assert model.context_length == 512
    with pytest.raises(RequestError, match="513 tokens is longer than the model's 512"):
        model.logits([1] * 513)
    with pytest.raises(RequestError):
        model.logits([])


def test_the_text_is_one_message_in_the_package_s_own_words(classifier: Classifier) -> None:
    prompt = "USER: hello<eos>\nASSISTANT: "
    assert classifier.encode("hello") == classifier.tokenizer.encode(prompt)


def test_probabilities_are_sigmoids_by_label(classifier: Classifier) -> None:
    logits = classifier.logits(classifier.encode("hello"))
    found = classifier.classify("hello")
    assert tuple(found) == classifier.labels == LABELS
    expected = 1 / (1 + np.exp(-logits.astype(np.float64)))
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-12)
    assert abs(sum(found.values()) - 1) > 1e-2, "they are no shares of 1"


def test_extreme_logits_do_not_overflow(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    extreme = np.array([-1e4, -50, 0, 50, 1e4], np.float32)
    monkeypatch.setattr(classifier, "logits", lambda ids: extreme)
    found = list(classifier.classify("hello").values())
    assert found[0] == 0
    assert found[2:] == [0.5, 1.0, 1.0]
    assert found[1] == pytest.approx(np.exp(-50.0))


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    folder = copy_package("modernbert", tmp_path)
    edit_config(folder, lambda config: config["classifier_config"].update(output_labels=None))
    loaded = masu.load(folder, backend="numpy")
    assert isinstance(loaded, Classifier)
    assert loaded.labels == ("class_0", "class_1", "class_2", "class_3", "class_4")


def test_a_package_without_a_template_takes_the_text_as_it_is(tmp_path: Path) -> None:
    folder = copy_package("modernbert", tmp_path)

    def without_template(config: dict) -> None:
        config["token_codec_config"] = {"type": "RawTextCodecConfig"}

    edit_config(folder, without_template)
    loaded = masu.load(folder, backend="numpy")
    assert isinstance(loaded, Classifier)
    assert loaded.encode("hello") == loaded.tokenizer.encode("hello")


def test_what_load_gives_depends_on_the_package() -> None:
    assert isinstance(masu.load(FOLDER, backend="numpy"), masu.Classifier)
    language_model = masu.load(GOLDEN / "llama-tied/engine", backend="numpy")
    assert isinstance(language_model, masu.LanguageModel)
    with pytest.raises(RequestError, match="not a classifier"):
        Classifier(encoder(Package.open(FOLDER), "numpy"), language_model.package)


def test_the_config_s_labels_are_those_of_the_checkpoint() -> None:
    saved = json.loads((GOLDEN / "modernbert/hf/config.json").read_text())["id2label"]
    assert tuple(saved[str(index)] for index in range(5)) == LABELS
