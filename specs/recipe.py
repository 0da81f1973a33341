"""A recipe: which weight matrix is stored in which format, and by which method, as data."""

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, JsonValue, TypeAdapter
from pydantic.fields import FieldInfo

from masu.specs.errors import RecipeError, SchemaError
from masu.specs.formats import WeightFormat, parse_spec
from masu.specs.schema_errors import validate_json
from masu.specs.strict import Strict
from masu.specs.tensors import Layout

Policy = Literal["refuse", "keep", "smaller_group"]
"""What becomes of a matrix whose channels do not fall into the groups of its format: the recipe is
refused, the matrix stays as it is, or the group size is halved, down to 16, until it divides."""

SMALLEST_GROUP = 16

KEEP = "keep"
"""The name, in the place of a recipe's, for leaving codes of a quantised source as they are."""


class Rule(Strict):
    """One line of a recipe.

    Attributes:
        match: a role, an engine tensor name, or a name with `*` for any part of it.
        format: a weight format without its layout, which is the matrix's; null leaves it as it is.
        method: how values become codes; a module of `quantizers/methods`.
        optional: whether the rule may match nothing.
    """

    match: str
    format: dict[str, JsonValue] | None
    method: str = "rtn"
    optional: bool = False


class Promotion(Strict):
    """A better format for those matrices whose rounding costs the most, by measurement.

    Attributes:
        format: as in a rule; the method is that of the rule which the matrix fell under.
        share: the part of all quantised parameters that may get it, in whole matrices.
    """

    format: dict[str, JsonValue]
    share: Annotated[float, Field(gt=0, lt=1)]


class Recipe(Strict):
    """Rules over the matrices of a model; see `docs/quantisation.md` for how they are read.

    Attributes:
        untie: give the readout a table of its own, so that each side has its own format.
        indivisible: what becomes of matrices that a format's groups do not fit.
    """

    name: str
    description: str
    untie: bool = False
    indivisible: Policy = "refuse"
    promotion: Promotion | None = None
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]


RECIPE: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def bound_format(choice: Mapping[str, Any], layout: Layout, where: str) -> WeightFormat:
    """The weight format that a recipe's choice is for a matrix of this layout.

    Raises:
        RecipeError: no such format, or not with these fields; `where` names the rule.
    """
    try:
        return parse_spec(json.dumps(_with_layout(choice, layout)), where)
    except SchemaError as error:
        raise RecipeError(f"{where}: no such format", problems=error.problems) from None


def named_recipes() -> dict[str, Recipe]:
    """The ready-made recipes, by name."""
    folder = files("masu.specs.recipes")
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(".toml"))
    recipes = (parse_recipe((folder / name).read_bytes(), name) for name in found)
    return {recipe.name: recipe for recipe in recipes}


def load_recipe(source: "str | Path | Recipe") -> Recipe:
    """A ready-made recipe by name, or one of a TOML or JSON file.

    Raises:
        RecipeError: neither such a name nor such a file, or not of the schema.
    """
    if isinstance(source, Recipe):
        return source
    named, path = named_recipes(), Path(source)
    if str(source) in named:
        return named[str(source)]
    if not path.is_file():
        raise RecipeError(
            f"{source} is neither a ready-made recipe nor a file",
            hint=f"ready-made: {', '.join(named)}; a recipe of your own is a TOML or JSON file",
        )
    try:
        return parse_recipe(path.read_bytes(), str(path))
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from error


def parse_recipe(data: bytes, where: str) -> Recipe:
    """A recipe from TOML, or from JSON where the name ends so; RecipeError names each fault."""
    if not where.endswith(".json"):
        try:
            data = json.dumps(tomllib.loads(data.decode())).encode()
        except (ValueError, TypeError) as error:
            raise RecipeError(f"{where} is not TOML: {error}") from None
    return validate_json(RECIPE, data, where, error=RecipeError)


def _with_layout(choice: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """With the layout, where the format has one, and null for what TOML cannot say: no adapter.

    Also for the formats inside.
    """
    completed = {
        key: _with_layout(value, layout) if isinstance(value, Mapping) else value
        for key, value in choice.items()
    }
    fields = _fields(choice.get("type"))
    if "layout" in fields:
        completed.setdefault("layout", layout)
    nullable = (name for name, field in fields.items() if type(None) in get_args(field.annotation))
    return {**dict.fromkeys(nullable), **completed}


def _fields(name: Any) -> Mapping[str, FieldInfo]:
    """The fields of the weight format of that type; none if there is no such format."""
    union, *_ = get_args(WeightFormat)
    known = {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(union)}
    return known[name].model_fields if name in known else {}
