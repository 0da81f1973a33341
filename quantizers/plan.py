"""A recipe over a planned stream: the stream of the quantised package, nothing computed yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from masu.quantizers.assignment import Assignment, assign
from masu.quantizers.encoding import quantised
from masu.quantizers.methods import find_method
from masu.quantizers.untie import untied
from masu.specs.formats.base import Planes
from masu.specs.manifest import CalibrationRecord
from masu.specs.model import TextModelConfig
from masu.specs.recipe import Recipe
from masu.specs.stream import PlannedTensor
from masu.specs.tensors import Matrix

PLAIN = "rtn"
"""The method where a calibrated one has nothing to see."""


@dataclass(frozen=True)
class Quantisation:
    """What a recipe makes of a model.

    Attributes:
        config: changed only by `untie`.
        stream: with every matrix in its new format.
        originals: the same tensors before that, those of an untied table included.
        assignments: of every matrix that a rule speaks of.
        pending: matrices whose method has to see the model run first (`calibration`); until then
            they are rounded to nearest, and so stay those that no text reaches.
        calibration: the text that the model was run over, once it was.
    """

    recipe: Recipe
    config: TextModelConfig
    stream: tuple[PlannedTensor, ...]
    originals: tuple[PlannedTensor, ...]
    assignments: Mapping[str, Assignment]
    pending: frozenset[str]
    calibration: CalibrationRecord | None = None

    @property
    def needs_model(self) -> bool:
        """Whether the model has to run before anything can be written."""
        return bool(self.pending) or self.recipe.promotion is not None

    @property
    def parameters(self) -> int:
        """Numbers in all matrices and vectors."""
        return sum(prod(tensor.shape) for tensor in self.stream)

    @property
    def record(self) -> dict[str, Any]:
        """For the manifest: the recipe, and what each matrix became under which rule."""
        applied = {
            name: {"rule": each.rule, "method": each.method if each.format else None}
            for name, each in self.assignments.items()
        }
        return {"recipe": self.recipe.model_dump(mode="json"), "applied": applied}


def plan_quantisation(
    recipe: Recipe,
    config: TextModelConfig,
    stream: Sequence[PlannedTensor],
    dtype: str,
    planes: Planes,
) -> Quantisation:
    """Plan what the recipe makes of every tensor of the stream.

    Args:
        dtype: the model's own element type, by its name in the file.

    Raises:
        RecipeError: the recipe does not fit the model; the message names every problem.
    """
    tensors = list(stream)
    if recipe.untie:
        config, tensors = untied(config, tensors)
    matrices = {name: entry for name, entry in config.tensors() if isinstance(entry, Matrix)}
    assignments = {
        name: _with_inputs(each, matrices[name]) for name, each in assign(recipe, matrices).items()
    }
    return _planned(recipe, config, tensors, assignments, dtype, planes)


def replanned(
    plan: Quantisation, assignments: Mapping[str, Assignment], dtype: str, planes: Planes
) -> Quantisation:
    """The same plan with other assignments."""
    return _planned(plan.recipe, plan.config, plan.originals, assignments, dtype, planes)


def _planned(
    recipe: Recipe,
    config: TextModelConfig,
    originals: Sequence[PlannedTensor],
    assignments: Mapping[str, Assignment],
    dtype: str,
    planes: Planes,
) -> Quantisation:
    pending = frozenset(
        name
        for name, each in assignments.items()
        if each.format is not None and find_method(each.method).calibrated
    )
    made = tuple(_made(tensor, assignments.get(tensor.name), dtype, planes) for tensor in originals)
    return Quantisation(recipe, config, made, tuple(originals), assignments, pending)


def _with_inputs(assignment: Assignment, matrix: Matrix) -> Assignment:
    """A calibrated method needs the inputs of a product: tables and experts are rounded plainly."""
    if matrix.layout == "output_input" and len(matrix.shape) == 2:
        return assignment
    if find_method(assignment.method).calibrated:
        return replace(assignment, method=PLAIN)
    return assignment


def _made(
    tensor: PlannedTensor, assignment: Assignment | None, dtype: str, planes: Planes
) -> PlannedTensor:
    if assignment is None or assignment.format is None:
        return tensor
    method = find_method(assignment.method)
    method = find_method(PLAIN) if method.calibrated else method
    return quantised(tensor, assignment.format, method, dtype, planes)
