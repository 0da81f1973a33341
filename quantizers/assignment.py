"""A recipe meets a model: which rule each matrix falls under, and everything that does not fit."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from masu.quantizers.methods import find_method
from masu.specs.errors import RecipeError
from masu.specs.formats import HybridSpec, WeightFormat
from masu.specs.recipe import SMALLEST_GROUP, Recipe, Rule, bound_format
from masu.specs.roles import ROLES, Role, roles
from masu.specs.tensors import Matrix, Shape

FUSED = {
    "qkvg_projection": ("q_proj", "k_proj", "v_proj", "query", "key", "value", "gate_projection"),
    "up_projection": ("gate_proj", "gate_up_proj"),
}
"""Engine projections, and what people call the parts that are fused into them."""


@dataclass(frozen=True)
class Assignment:
    """What one matrix becomes.

    Attributes:
        format: None where the matrix stays as it is.
        rule: the `match` of the rule that decided.
    """

    name: str
    role: Role
    shape: Shape
    format: WeightFormat | None
    method: str
    rule: str


def assign(recipe: Recipe, matrices: Mapping[str, Matrix]) -> dict[str, Assignment]:
    """The assignment of every matrix; those that no rule speaks of stay as they are.

    Args:
        matrices: all of the model, by canonical name, after `untie`.

    Raises:
        RecipeError: all at once, every rule that matches nothing, is as specific as another one on
            the same matrix, names no format or method, or does not fit a matrix.
    """
    known = roles(matrices)
    chosen, problems = _choose(recipe, known)
    problems += _idle(recipe, chosen, known)
    assignments: dict[str, Assignment] = {}
    for name, rule in chosen.items():
        found = _assignment(recipe, rule, name, known[name], matrices[name])
        if isinstance(found, Assignment):
            assignments[name] = found
        else:
            problems += found
    if problems:
        raise RecipeError(
            f"recipe {recipe.name} does not fit the model:",
            problems=dict.fromkeys(problems),
            hint="masu info lists the model's matrices; docs/quantisation.md says how rules match",
        )
    return assignments


def _choose(recipe: Recipe, known: Mapping[str, Role]) -> tuple[dict[str, Rule], list[str]]:
    """The most specific rule for each matrix, and the ties between rules."""
    chosen: dict[str, Rule] = {}
    ties: list[str] = []
    for name, role in known.items():
        matching = [rule for rule in recipe.rules if _matches(rule, name, role)]
        best = max(map(_specificity, matching), default=None)
        winners = [rule for rule in matching if _specificity(rule) == best]
        if len(winners) > 1:
            ties.append(f"rules {' and '.join(repr(r.match) for r in winners)} overlap on {name}")
        if winners:
            chosen[name] = winners[0]
    return chosen, _first_of_each(ties)


def _first_of_each(ties: list[str]) -> list[str]:
    """One line for each pair of rules, with the first matrix that they meet on."""
    firsts: dict[str, str] = {}
    for line in ties:
        firsts.setdefault(line.split(" overlap on ")[0], line)
    return list(firsts.values())


def _matches(rule: Rule, name: str, role: Role) -> bool:
    if rule.match in ROLES:
        return rule.match == role
    return _pattern(rule.match).fullmatch(name) is not None


def _pattern(match: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, match.split("*"))))


def _specificity(rule: Rule) -> tuple[int, int]:
    """`*` is below a role, a role below a pattern, a pattern below a name; then letters count."""
    if rule.match in ROLES:
        return 1, 0
    letters = len(rule.match.replace("*", ""))
    if letters == 0:
        return 0, 0
    return (2 if "*" in rule.match else 3), letters


def _idle(recipe: Recipe, chosen: Mapping[str, Rule], known: Mapping[str, Role]) -> Iterator[str]:
    """Rules that decide nothing."""
    deciding = list(chosen.values())
    for rule in recipe.rules:
        if rule.optional or rule in deciding:
            continue
        if any(_matches(rule, name, role) for name, role in known.items()):
            yield f"rule {rule.match!r} decides nothing: more specific rules cover all it matches"
        else:
            yield f"rule {rule.match!r} matches no matrix{_advice(rule.match, known)}"


def _advice(match: str, known: Mapping[str, Role]) -> str:
    """What was perhaps meant."""
    for fused, parts in FUSED.items():
        if any(part in match for part in parts) and any(fused in name for name in known):
            return f": the engine fuses it into {fused}, which has one format"
    if match in ROLES:
        return f": the model has no matrix of the role {match}"
    close = get_close_matches(match, [*ROLES, *known], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _assignment(
    recipe: Recipe, rule: Rule, name: str, role: Role, matrix: Matrix
) -> Assignment | list[str]:
    """What the rule makes of the matrix, or what is wrong with that."""
    where = f"rule {rule.match!r}"
    if rule.format is None:
        return Assignment(name, role, matrix.shape, None, rule.method, rule.match)
    try:
        method = find_method(rule.method)
        wanted = bound_format(rule.format, matrix.layout, where)
    except RecipeError as error:
        return [f"{error.message}{_listed(error.problems)}"]
    fitted = fit(wanted, matrix.shape, recipe.indivisible)
    if isinstance(fitted, str):
        return [f"{where}: {name} {list(matrix.shape)}: {fitted}"]
    problem = None if fitted is None else method.problem(fitted)
    if problem is not None:
        return [f"{where}: method {rule.method}: {problem}"]
    return Assignment(name, role, matrix.shape, fitted, rule.method, rule.match)


def _listed(problems: tuple[str, ...]) -> str:
    return f": {'; '.join(problems)}" if problems else ""


def fit(wanted: WeightFormat, shape: Shape, policy: str) -> WeightFormat | str | None:
    """The format for a matrix of this shape; None to leave it as it is; or why not, as text."""
    problem = wanted.problem(shape)
    if problem is None:
        return wanted
    if policy == "keep":
        return None
    if policy == "smaller_group":
        smaller = wanted
        while (halved := _halved(smaller)) is not None:
            smaller = halved
            if smaller.problem(shape) is None:
                return smaller
    return problem


def _halved(wanted: WeightFormat) -> WeightFormat | None:
    """The same format with half the group size; None where there is no such format."""
    if isinstance(wanted, HybridSpec):
        core = _halved(wanted.quantization_spec)
        return None if core is None else wanted.model_copy(update={"quantization_spec": core})
    size: Any = getattr(wanted, "group_size", None)
    if size is None or size % 2 or size // 2 < SMALLEST_GROUP:
        return None
    return wanted.model_copy(update={"group_size": size // 2})
