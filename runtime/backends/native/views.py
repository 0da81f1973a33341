"""Operations that compute nothing: which places of an array stand where in another."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from masu.runtime.backends.native.equations import Equation
from masu.specs.tensors import Shape


@dataclass(frozen=True)
class View:
    """`shape` places of an array: that of `index` is `start + sum(index * steps)`, flat."""

    start: int
    shape: Shape
    steps: tuple[int, ...]

    @property
    def is_run(self) -> bool:
        """Places side by side, in their order: the same memory."""
        pairs = zip(self.shape, self.steps, steps_of(self.shape), strict=True)
        return all(size == 1 or step == usual for size, step, usual in pairs)


def steps_of(shape: Shape) -> tuple[int, ...]:
    """From one place along an axis to the next, of an array in its own memory."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def part_of(shape: Shape, axis: int, start: int, size: int) -> View:
    """The places `start .. start + size` along one axis."""
    steps = steps_of(shape)
    return View(start * steps[axis], (*shape[:axis], size, *shape[axis + 1 :]), steps)


def spread(given: Shape, made: Shape, axes: Sequence[int]) -> View:
    """Where each given axis is one of the made ones: along all else all places are one."""
    steps = [0] * len(made)
    for axis, size, step in zip(axes, given, steps_of(given), strict=True):
        steps[axis] = step if size == made[axis] else 0
    return View(0, made, tuple(steps))


def _same(equation: Equation) -> Iterator[View]:
    shape = equation.outputs[0].aval.shape
    yield View(0, shape, steps_of(shape))


def _spread(equation: Equation) -> Iterator[View]:
    given, made = equation.inputs[0].aval.shape, equation.outputs[0].aval.shape
    yield spread(given, made, equation.params["broadcast_dimensions"])


def _transposed(equation: Equation) -> Iterator[View]:
    steps = steps_of(equation.inputs[0].aval.shape)
    order = equation.params["permutation"]
    yield View(0, equation.outputs[0].aval.shape, tuple(steps[axis] for axis in order))


def _sliced(equation: Equation) -> Iterator[View]:
    steps, starts = steps_of(equation.inputs[0].aval.shape), equation.params["start_indices"]
    strides = equation.params["strides"] or (1,) * len(steps)
    start = sum(start * step for start, step in zip(starts, steps, strict=True))
    taken = tuple(stride * step for stride, step in zip(strides, steps, strict=True))
    yield View(start, equation.outputs[0].aval.shape, taken)


def _split(equation: Equation) -> Iterator[View]:
    axis, start = equation.params["axis"], 0
    for size in map(int, equation.params["sizes"]):
        yield part_of(equation.inputs[0].aval.shape, axis, start, size)
        start += size


SAME_MEMORY = ("reshape", "squeeze", "expand_dims", "copy", "copy_p", "stop_gradient")

VIEWS: Mapping[str, Callable[[Equation], Iterator[View]]] = {
    **dict.fromkeys(SAME_MEMORY, _same),
    "broadcast_in_dim": _spread,
    "transpose": _transposed,
    "slice": _sliced,
    "split": _split,
}
"""What each output of an operation is of its input, by JAX's names."""
