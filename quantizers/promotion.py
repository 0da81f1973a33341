"""A recipe's better format goes to the matrices whose rounding costs the most per parameter."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from masu.quantizers.assignment import Assignment, fit
from masu.quantizers.calibration import OnLayer
from masu.quantizers.plan import Quantisation, replanned
from masu.quantizers.sensitivity import sensitivities
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.recipe import Promotion, bound_format


def promote(
    plan: Quantisation,
    ids: np.ndarray,
    dtype: str,
    planes: Planes,
    on_layer: OnLayer | None = None,
) -> Quantisation:
    """The plan with its recipe's promotion carried out; the plan itself if there is none.

    Args:
        ids: the text on which sensitivity is measured.

    Raises:
        RecipeError: the better format is none.
    """
    promotion = plan.recipe.promotion
    if promotion is None:
        return plan
    costs = sensitivities(plan, ids, on_layer)
    better = _better(plan, promotion)
    chosen = _chosen(plan.assignments, costs, better, promotion.share)
    assignments = {
        name: replace(each, format=better[name]) if name in chosen else each
        for name, each in plan.assignments.items()
    }
    return replanned(plan, assignments, dtype, planes)


def _better(plan: Quantisation, promotion: Promotion) -> dict[str, WeightFormat]:
    """The better format of every quantised matrix that it fits."""
    found: dict[str, WeightFormat] = {}
    for name, each in plan.assignments.items():
        if each.format is None:
            continue
        wanted = bound_format(promotion.format, each.format.stored_layout, "promotion")
        fitted = fit(wanted, each.shape, "keep")
        if fitted is not None and not isinstance(fitted, str):
            found[name] = fitted
    return found


def _chosen(
    assignments: Mapping[str, Assignment],
    costs: Mapping[str, float],
    better: Mapping[str, WeightFormat],
    share: float,
) -> set[str]:
    """The most sensitive matrices per parameter, as many as fit into the share."""
    sizes = {n: prod(a.shape) for n, a in assignments.items() if a.format is not None}
    room = share * sum(sizes.values())
    chosen: set[str] = set()
    for name in sorted(better, key=lambda name: (-costs.get(name, 0.0) / sizes[name], name)):
        if sizes[name] <= room:
            chosen.add(name)
            room -= sizes[name]
    return chosen
