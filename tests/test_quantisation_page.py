"""docs/quantisation.md shows the figures of quantisation.json, and these say what it claims."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from masu.quantizers.methods import method_names
from masu.specs.recipe import named_recipes
from masu.specs.roles import ROLES

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = json.loads((DOCS / "quantisation.json").read_text())
MODELS = ["SmolLM2-135M", "Gemma-3-270M"]


def with_tables(page: str) -> str:
    """By docs/quantisation_page.py, which is no module of a package."""
    return runpy.run_path(str(DOCS / "quantisation_page.py"))["with_tables"](page, RESULTS)


def lines(model: str) -> dict[str, dict[str, Any]]:
    return RESULTS["models"][model]["lines"]


def test_tables_are_current() -> None:
    page = (DOCS / "quantisation.md").read_text()
    assert with_tables(page) == page, "run docs/quantisation_page.py"


def test_roles_recipes_and_methods_are_all_described() -> None:
    page = (DOCS / "quantisation.md").read_text()
    rows = "".join(re.findall(r"^\| `.*$", page, re.M))
    for name in (*ROLES, *named_recipes(), *method_names()):
        assert f"`{name}`" in rows, name


@pytest.mark.parametrize("model", MODELS)
def test_measured_on_the_same_function(model: str) -> None:
    assert RESULTS["models"][model]["permuted_kl"] < 1e-6


@pytest.mark.parametrize("model", MODELS)
def test_every_recipe_was_measured(model: str) -> None:
    """`mobile` needs widths that are a multiple of 128."""
    left_out = {"mobile"} if model == "SmolLM2-135M" else set()
    assert {f"`{name}`" for name in named_recipes().keys() - left_out} <= lines(model).keys()


@pytest.mark.parametrize("model", MODELS)
def test_divergence_falls_as_bits_rise(model: str) -> None:
    kl = {name: line["mean_kl"] for name, line in lines(model).items()}
    assert max(kl["`int8`"], kl["`mlx-8bit`"]) < 0.003
    assert kl["`mlx-8bit`"] < kl["`mixed-4-8`"] < kl["`mlx-4bit`"]


@pytest.mark.parametrize("model", MODELS)
def test_calibration_beats_rounding_to_nearest(model: str) -> None:
    """In the same format, and at the bits of mlx-lm's 4-bit codes."""
    kl = {name: line["mean_kl"] for name, line in lines(model).items()}
    theirs = kl["mlx_lm.convert -q --q-bits 4 --q-group-size 64"]
    assert kl["`int4` by `gptq`"] < kl["`int4`"]
    assert kl["`mlx-4bit` by `gptq`"] < theirs
    assert kl["`int4-rht`"] < min(kl["`int4-rht` by `rtn` (rotation alone)"], kl["`int4`"], theirs)


def test_a_d4s4_table_takes_less_than_half_of_four_bits() -> None:
    alone = {
        name: line["tables"]["input_embedding"]
        for name, line in lines("Gemma-3-270M").items()
        if name.startswith("only the input table")
    }
    d4s4, four_bits = alone.values()
    assert d4s4 < four_bits / 2
