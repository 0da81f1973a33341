"""The strict load: what the blocks ask for is what there is, all of it, or the load fails."""

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend
from tensor_sources import Altered, edited, layers_of

from masu.runtime.encoder import load_encoder
from masu.runtime.loader import TensorSource
from masu.runtime.model import load_model
from masu.runtime.reference import reference_logits
from masu.specs.errors import RequestError, SchemaError, TensorError
from masu.specs.package import Package
from masu.specs.tensors import ArraySpec

NORM = "decoder.transformer.layers.1.pre_mlp_norm.scales"
DOWN = "decoder.transformer.layers.0.mlp.down_projection.weights"


def package(case: str = "llama") -> Package:
    return Package.open(GOLDEN / case / "engine")


def with_table(**changes: ArraySpec | None) -> Altered:
    """The package with entries of its table of tensors replaced, or (None) left out."""
    source = package()
    table = {**source.tensors(), **changes}
    kept = {name: spec for name, spec in table.items() if spec is not None}
    return Altered(source, source.config, table=kept)


def load(source: TensorSource) -> None:
    load_model(source, backend=shared_backend("numpy"))


def test_unread_tensor() -> None:
    source = with_table(**{"decoder.stray": ArraySpec("BF16", (3,))})
    with pytest.raises(TensorError, match=r"decoder.stray: BF16 \[3\], which no block reads"):
        load(source)
    with pytest.raises(TensorError, match=r"decoder.stray"):
        reference_logits(source, [1])


def test_missing_tensor() -> None:
    with pytest.raises(TensorError, match=rf"{NORM}: F32 \[64\] expected, found no such tensor"):
        load(with_table(**{NORM: None}))


@pytest.mark.parametrize(
    "found", [ArraySpec("F32", (63,)), ArraySpec("BF16", (64,)), ArraySpec("F32", (64, 1))]
)
def test_tensor_of_another_shape_or_type(found: ArraySpec) -> None:
    with pytest.raises(TensorError) as caught:
        load(with_table(**{NORM: found}))
    assert caught.value.problems == (f"{NORM}: F32 [64] expected, found {found}",)


def test_all_problems_come_at_once() -> None:
    source = with_table(
        **{"decoder.stray": ArraySpec("U8", (1,)), NORM: None, f"{DOWN}.weights": None}
    )
    with pytest.raises(TensorError) as caught:
        load(source)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        f"{DOWN}.weights",
        NORM,
        "decoder.stray",
    ]


def test_a_table_that_lies_about_what_is_read() -> None:
    source = package()
    changes = {NORM: lambda values: values[:-1]}
    with pytest.raises(TensorError, match=r"but reading it gives F32 \[63\]"):
        load(Altered(source, source.config, changes))


def test_the_blocks_do_not_believe_the_table() -> None:
    """Config and table agree with each other, but the widths are not those of the arrays."""

    def widen(decoder: dict) -> None:
        layers_of(decoder)[0]["hidden_dim"] = 96

    source = package()
    with pytest.raises(TensorError, match=rf"{DOWN}.weights: BF16 \[64, 96\] expected"):
        load(Altered(source, edited(source.config, widen)))


def test_matrix_without_a_format() -> None:
    class Formatless(Altered):
        @property
        def formats(self):
            return {path: each for path, each in self.base.formats.items() if path != DOWN}

    source = package()
    with pytest.raises(TensorError, match=rf"{DOWN}: no weight format, expected a matrix"):
        load(Formatless(source, source.config))


def test_matrix_of_the_other_layout() -> None:
    class Turned(Altered):
        @property
        def formats(self):
            return dict(self.base.formats) | {DOWN: self.base.formats[EMBEDDING]}

    source = package()
    with pytest.raises(TensorError, match="layout output_input expected, found input_output"):
        load(Turned(source, source.config))


EMBEDDING = "decoder.embedding.input_embedding"


def test_groups_that_do_not_divide() -> None:
    def narrow(decoder: dict) -> None:
        layers_of(decoder)[0]["hidden_dim"] = 120

    source = package("llama-int4-g32-sym")
    with pytest.raises(TensorError, match="120 columns are not a multiple of the group size 32"):
        load(Altered(source, edited(source.config, narrow)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"is_causal": False}, "layer 0: is_causal must be true"),
        ({"head_dim": 14}, "layer 0: rope_config.head_dim 16 is above head_dim 14"),
        ({"is_kv_sharing": True}, "layer 0: is_kv_sharing is True, kv_source_layer_index is None"),
    ],
)
def test_contradictions_in_a_mixer(fields: dict, message: str) -> None:
    def edit(decoder: dict) -> None:
        layers_of(decoder)[0]["mixer_config"].update(fields)

    source = package()
    with pytest.raises(SchemaError, match=message):
        load(Altered(source, edited(source.config, edit)))


@pytest.mark.parametrize(
    ("layer", "shared", "message"),
    [
        (1, 1, "layer 1: kv_source_layer_index 1 is not an earlier layer"),
        (2, 1, "layer 2: kv_source_layer_index 1 names a layer without a cache of its own"),
    ],
)
def test_contradictions_in_sharing(layer: int, shared: int, message: str) -> None:
    def edit(decoder: dict) -> None:
        for index, source in ((1, 0), (layer, shared)):
            layers_of(decoder)[index]["kv_source_layer_index"] = source
            layers_of(decoder)[index]["mixer_config"]["is_kv_sharing"] = True

    source = package("llama-tied")
    with pytest.raises(SchemaError, match=message):
        load(Altered(source, edited(source.config, edit)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ple_vocab_size": 319}, "ple_vocab_size 319 is below vocab_size 320"),
        ({"num_layers": 5}, r"ple_model_config.num_layers is 5, there are 6 layers"),
        ({"ple_dim": 8}, r"layer 5: ple_dim is 16, that of ple_model_config is 8"),
    ],
)
def test_contradictions_in_per_layer_embeddings(fields: dict, message: str) -> None:
    source = package("gemma4-text")
    config = edited(source.config, lambda decoder: decoder["ple_model_config"].update(fields))
    with pytest.raises(SchemaError, match=message):
        load(Altered(source, config))


def test_layers_that_read_per_layer_embeddings_of_nobody() -> None:
    source = package("gemma4-text")
    config = edited(source.config, lambda decoder: decoder.update(ple_model_config=None))
    with pytest.raises(SchemaError, match="layer 0: ple_dim is 16, that of ple_model_config is N"):
        load(Altered(source, config))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_dim": 32}, r"model_dim is 32, transformer_config.model_dim is 64"),
        ({"num_labels": 4}, "output_labels has 5 names, num_labels is 4"),
        ({"output_labels": list("abcba")}, "output_labels has a name twice: a, b, c, b, a"),
    ],
)
def test_contradictions_in_a_classifier(fields: dict, message: str) -> None:
    source = package("modernbert")
    config = edited(source.config, lambda classifier: classifier.update(fields))
    with pytest.raises(SchemaError, match=message):
        load_encoder(Altered(source, config), backend=shared_backend("numpy"))


def test_each_kind_of_model_has_its_loader() -> None:
    with pytest.raises(RequestError, match="a ClassifierModelConfig is no language model"):
        load(package("modernbert"))
    with pytest.raises(RequestError, match="a LanguageModelConfig is no classifier"):
        load_encoder(package())


def test_long_rope_has_a_factor_for_each_pair() -> None:
    def edit(decoder: dict) -> None:
        layers_of(decoder)[1]["rope_config"]["long_factor"].pop()

    source = package("phi3")
    with pytest.raises(SchemaError, match=r"layer 1: rope_config.long_factor has not one value"):
        load(Altered(source, edited(source.config, edit)))


def test_unknown_backend_and_dtype() -> None:
    with pytest.raises(
        RequestError, match="no backend 'abacus'; there are: jax, mlx, native, numpy"
    ):
        load_model(package(), backend="abacus")
    with pytest.raises(RequestError, match="backend 'jax' has no dtype 'float64'"):
        load_model(package(), backend=shared_backend("jax"), dtype="float64")


def test_nothing_is_read_after_a_problem() -> None:
    """A package that cannot be loaded costs its header, not its gigabytes."""
    reads: list[str] = []

    def note(name: str):
        def change(values: np.ndarray) -> np.ndarray:
            reads.append(name)
            return values

        return change

    source = package()
    first = "decoder.embedding.input_embedding.weights"
    table = {name: spec for name, spec in source.tensors().items() if name != first}
    changes = {name: note(name) for name in source.tensors()}
    with pytest.raises(TensorError, match=first):
        load(Altered(source, source.config, changes, table))
    assert reads == []
