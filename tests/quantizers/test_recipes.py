"""Recipes: which rule a matrix falls under, and every way in which one does not fit."""

from pathlib import Path

import pytest
from golden import GOLDEN

from masu.quantisation import quantize
from masu.quantizers.assignment import assign
from masu.quantizers.methods import find_method, method_names
from masu.specs.errors import RecipeError
from masu.specs.formats import FullPrecisionSpec, HybridSpec, IntSpec, MLXSpec
from masu.specs.package import Package
from masu.specs.recipe import (
    Recipe,
    Rule,
    bound_format,
    load_recipe,
    named_recipes,
    parse_recipe,
)
from masu.specs.roles import roles
from masu.specs.tensors import Matrix

LAYER = "decoder.transformer.layers.0"
MATRICES = {
    "decoder.embedding.input_embedding": Matrix((96, 64), "input_output"),
    "decoder.embedding.output_embedding": Matrix((96, 64)),
    f"{LAYER}.mixer.qkvg_projection.weights": Matrix((128, 64)),
    f"{LAYER}.mixer.out_projection.weights": Matrix((64, 100)),
    f"{LAYER}.mlp.up_projection.weights": Matrix((128, 64)),
    "decoder.transformer.layers.1.mixer.in_projection.weights": Matrix((128, 64)),
    "decoder.transformer.layers.1.mlp.router.weights": Matrix((8, 64)),
    "decoder.transformer.layers.1.mlp.experts.up_projection.weights": Matrix((8, 64, 64)),
}
MLX64 = {"type": "MLXSpec", "bits": 4, "group_size": 64}


def recipe(*rules: Rule, **fields: object) -> Recipe:
    return Recipe.model_validate({"name": "own", "description": "", "rules": rules, **fields})


def test_roles_are_told_from_names() -> None:
    assert list(roles(MATRICES).values()) == [
        "embedding", "readout", "attention", "attention", "mlp", "recurrent", "router", "experts",
    ]  # fmt: skip


def test_the_most_specific_rule_wins_whatever_the_order() -> None:
    rules = (
        Rule(match=f"{LAYER}.mlp.up_projection.weights", format={**MLX64, "bits": 8}),
        Rule(match="*", format=MLX64),
        Rule(match="decoder.transformer.layers.0.*", format={**MLX64, "group_size": 4}),
        Rule(match="embedding", format=None),
    )
    for ordered in (rules, rules[::-1]):
        found = assign(recipe(*ordered), MATRICES)
        formats = [found[name].format for name in MATRICES]
        assert formats[0] is None
        assert [getattr(f, "group_size", None) for f in formats] == [None, 64, 4, 4, 64, 64, 64, 64]
        assert getattr(formats[4], "bits", 0) == 8


FAULTS = {
    "a typo in a role": (Rule(match="atention", format=MLX64), "did you mean attention"),
    "a typo in a name": (
        Rule(match=f"{LAYER}.mlp.up_projektion.weights", format=MLX64),
        "did you mean decoder.transformer.layers.0.mlp.up_projection.weights",
    ),
    "a part of a fused projection": (
        Rule(match=f"{LAYER}.mixer.q_proj.weights", format=MLX64),
        "fuses it into qkvg_projection",
    ),
    "group 64 on width 100": (
        Rule(match=f"{LAYER}.mixer.out*", format=MLX64),
        "100 columns are not a multiple of the group size 64",
    ),
    "overlapping patterns": (
        Rule(match="*mlp.up_projection.weights", format=MLX64),
        "overlap on",
    ),
    "a format's typo": (
        Rule(match="readout", format={"type": "MLXSpec", "bits": 4, "groups": 64}),
        "groups: unknown field",
    ),
    "an unknown method": (Rule(match="readout", format=MLX64, method="rtm"), "did you mean rtn"),
    "a method of another format": (
        Rule(
            match="readout",
            format={"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": True},
            method="mlx",
        ),
        "MLXSpec only",
    ),
    "a width that D4S4 lacks": (
        Rule(match="embedding", format={"type": "D4S4Spec"}),
        "64 columns are not a multiple of 128",
    ),
    "a layout that D4S4 lacks": (
        Rule(match="readout", format={"type": "D4S4Spec"}),
        "no such format",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_does_not_fit_is_named(name: str) -> None:
    faulty, message = FAULTS[name]
    rules = [faulty]
    if name == "overlapping patterns":
        rules.append(Rule(match="*mlp.up_projectio*n.weights", format=MLX64))
    with pytest.raises(RecipeError) as caught:
        assign(recipe(*rules), MATRICES)
    assert any(message in problem for problem in caught.value.problems)


def test_all_problems_come_in_one_message_and_nothing_is_written(tmp_path: Path) -> None:
    wrong = recipe(
        Rule(match="atention", format=MLX64),
        Rule(match="*q_proj*", format=MLX64),
        Rule(match="mlp", format={**MLX64, "group_size": 48}),
        Rule(match="readout", format={**MLX64, "bits": 5}),
    )
    with pytest.raises(RecipeError) as caught:
        quantize(GOLDEN / "llama" / "engine", tmp_path / "out", wrong)
    text = str(caught.value)
    for expected in (
        "did you mean attention",
        "qkvg_projection",
        "group size 48",
        "bits: expected",
    ):
        assert expected in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("policy", "expected"), [("keep", None), ("smaller_group", 32), ("refuse", RecipeError)]
)
def test_policies_for_groups_that_do_not_divide(policy: str, expected: object) -> None:
    matrices = {f"{LAYER}.mlp.up_projection.weights": Matrix((8, 96))}
    own = recipe(Rule(match="*", format=MLX64), indivisible=policy)
    if expected is RecipeError:
        with pytest.raises(RecipeError, match="does not fit"):
            assign(own, matrices)
    else:
        [found] = assign(own, matrices).values()
        assert getattr(found.format, "group_size", None) == expected


def test_a_rule_that_others_cover_decides_nothing() -> None:
    covered = recipe(Rule(match="*", format=MLX64), *(Rule(match=n, format=None) for n in MATRICES))
    with pytest.raises(RecipeError) as caught:
        assign(covered, MATRICES)
    assert caught.value.problems == (
        "rule '*' decides nothing: more specific rules cover all it matches",
    )


def test_formats_are_bound_to_the_layout_of_a_matrix() -> None:
    inner = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}
    outer = {
        "type": "HybridSpec",
        "quantization_spec": inner,
        "incoherence_block_size": 32,
        "incoherence_processing_mode": "output",
    }
    bound = bound_format(outer, "input_output", "here")
    assert isinstance(bound, HybridSpec)
    assert bound.stored_layout == "input_output"
    assert bound.adapter_spec is None
    assert isinstance(bound.quantization_spec, IntSpec)


def test_ready_made_recipes_name_known_methods_and_formats() -> None:
    names = {"mlx-4bit", "mlx-8bit", "int4", "int8", "int4-rht", "mixed-4-8", "mobile"}
    assert named_recipes().keys() == names
    for each in named_recipes().values():
        for rule in each.rules:
            assert rule.format is not None
            assert find_method(rule.method).name in method_names()
            layout = "input_output" if rule.match == "embedding" else "output_input"
            bound_format(rule.format, layout, each.name)


def test_recipes_come_by_name_or_from_files(tmp_path: Path) -> None:
    own = 'name = "own"\ndescription = ""\n[[rules]]\nmatch = "*"\nformat = { type = "D4S4Spec" }\n'
    (tmp_path / "own.toml").write_text(own)
    assert load_recipe(tmp_path / "own.toml").name == "own"
    (tmp_path / "own.json").write_text(load_recipe("int4").model_dump_json())
    assert load_recipe(str(tmp_path / "own.json")) == load_recipe("int4")
    with pytest.raises(RecipeError, match="neither a ready-made recipe nor a file"):
        load_recipe("int3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "not TOML"),
        ('name = "x"\ndescription = ""\nrules = []\n', "rules"),
        ('name = "x"\ndescription = ""\nuntied = true\nrules = [{match="*"}]\n', "untied"),
    ],
)
def test_files_that_are_no_recipes(text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text.encode(), "own.toml")
    assert message in str(caught.value)


def test_dequantising_is_a_recipe_too(tmp_path: Path) -> None:
    plain = recipe(Rule(match="*", format={"type": "FullPrecisionSpec"}))
    quantize(GOLDEN / "llama-mlx-4bit-g64" / "engine", tmp_path / "plain", plain)
    formats = Package.open(tmp_path / "plain").formats
    assert all(isinstance(each, FullPrecisionSpec) for each in formats.values())
    back = recipe(Rule(match="*", format=MLX64))
    quantize(tmp_path / "plain", tmp_path / "again", back)
    assert all(
        isinstance(each, MLXSpec) for each in Package.open(tmp_path / "again").formats.values()
    )
