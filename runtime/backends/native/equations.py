"""What JAX traced as one flat list of equations, without those that nobody asks for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

INLINED = ("jit", "pjit", "closed_call", "custom_jvp_call")


def is_literal(var: Any) -> bool:
    """Whether a variable of an equation is a number that stands there.

    JAX's class for it is known by its value: where it may be imported from also brings Pallas.
    """
    return hasattr(var, "val")


class Result:
    """What an equation makes, each time that it is met."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval


@dataclass(frozen=True)
class Equation:
    """Its variables are those that an inlined function's own stand for."""

    primitive: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    params: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.primitive.name

    @property
    def is_whole(self) -> bool:
        """A slice as long as what it is taken from: where it begins does not matter."""
        return (
            self.name == "dynamic_slice" and self.params["slice_sizes"] == self.inputs[0].aval.shape
        )


def flattened(closed: Any, constant: Callable[[Any], Result]) -> tuple[list[Equation], list[Any]]:
    """The equations of a closed jaxpr that its results need, and the results.

    Args:
        constant: makes a variable for values that never change.
    """
    names: dict[Any, Any] = {}
    equations = list(_flat(closed, names, constant))
    results = [_known(names, var) for var in closed.jaxpr.outvars]
    return _needed(equations, results), results


def _flat(
    closed: Any, names: dict[Any, Any], constant: Callable[[Any], Result]
) -> Iterator[Equation]:
    """All equations in their order, those of inlined functions among them.

    Args:
        names: what a variable of an inlined function stands for, written as they are found. A
            function that is called twice has the same variables twice.
    """
    for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        names[var] = constant(value)
    for equation in closed.jaxpr.eqns:
        inputs = tuple(_known(names, var) for var in equation.invars)
        name = equation.primitive.name
        if name not in INLINED:
            outputs = tuple(Result(var.aval) for var in equation.outvars)
            names.update(zip(equation.outvars, outputs, strict=True))
            yield Equation(equation.primitive, inputs, outputs, equation.params)
            continue
        inner = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
        names.update(zip(inner.jaxpr.invars, inputs, strict=True))
        yield from _flat(inner, names, constant)
        made = [_known(names, var) for var in inner.jaxpr.outvars]
        names.update(zip(equation.outvars, made, strict=True))


def _known(names: Mapping[Any, Any], var: Any) -> Any:
    return var if is_literal(var) else names.get(var, var)


def _needed(equations: Sequence[Equation], results: Sequence[Any]) -> list[Equation]:
    """Without the equations whose results nobody asks for."""
    wanted = {var for var in results if not is_literal(var)}
    kept = []
    for equation in reversed(equations):
        if wanted.isdisjoint(equation.outputs):
            continue
        kept.append(equation)
        inputs = equation.inputs[:1] if equation.is_whole else equation.inputs
        wanted.update(var for var in inputs if not is_literal(var))
    return kept[::-1]
