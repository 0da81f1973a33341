"""From what JAX traced to a program of kernel calls, where nothing but kernels is needed.

For one row most of what stands between kernels moves no data: slices, reshapes and transpositions
are the same memory under another shape. Sums and products of activations are few. Whatever else
there is makes the trace unsupported, and XLA runs it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from masu.runtime.backends.native.program import XLA_TYPES, Place, Program
from masu.specs.tensors import Shape


class Unsupported(Exception):
    """A program cannot do this; the message says what."""


ARITHMETIC = {
    name: number
    for number, name in enumerate(
        (
            *("add", "sub", "mul", "div", "max", "min", "convert_element_type", "neg", "abs"),
            *("gt", "lt", "ge", "le", "eq", "select_n"),
        )
    )
}
"""`Operation` of cpp/arithmetic.cpp, by JAX's names."""

COUNTED = XLA_TYPES.keys() - {np.dtype(np.uint32)}
"""Types that arithmetic knows: of words of 32 bits without a sign kernels make addresses."""

SAME_MEMORY = ("reshape", "squeeze", "expand_dims", "copy", "copy_p", "stop_gradient")
INLINED = ("jit", "pjit", "closed_call", "custom_jvp_call")
ALIGNMENT = 64


@dataclass
class Lowered:
    """A program and what is to be bound.

    Attributes:
        constants: what blocks hold from the start, by their number.
        arena: bytes that results need, in block 0.
        inputs: the block of each argument.
        outputs: where each result stands.
    """

    program: Program
    constants: Mapping[int, Any]
    arena: int
    inputs: list[int]
    outputs: list[Place]


@dataclass(frozen=True)
class _Equation:
    """One of a flat list: variables of inlined functions are those that they stand for."""

    primitive: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    params: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.primitive.name


def lower(closed: Any) -> Lowered:
    """The program of a closed jaxpr.

    Raises:
        Unsupported: it has an operation that no kernel does.
    """
    lowering = _Lowering()
    inputs = [lowering.new_block() for _ in closed.jaxpr.invars]
    for var, block in zip(closed.jaxpr.invars, inputs, strict=True):
        lowering.put(var, Place(block, 0, var.aval.shape, var.aval.dtype))
    names: dict[Any, Any] = {}
    equations = list(_flat(closed, names, lowering))
    results = [_known(names, var) for var in closed.jaxpr.outvars]
    for equation in _needed(equations, results):
        lowering.add(equation)
    outputs = [lowering.place(var) for var in results]
    return Lowered(lowering.program, lowering.values, lowering.arena, inputs, outputs)


def _flat(closed: Any, names: dict[Any, Any], lowering: "_Lowering") -> Iterator[_Equation]:
    """All equations in their order, those of inlined functions among them.

    Args:
        names: what a variable of an inlined function stands for, written as they are found. A
            function that is called twice has the same variables twice.
    """
    for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        names[var] = lowering.constant(value)
    for equation in closed.jaxpr.eqns:
        inputs = tuple(_known(names, var) for var in equation.invars)
        name = equation.primitive.name
        if name not in INLINED:
            outputs = tuple(_Result(var.aval) for var in equation.outvars)
            names.update(zip(equation.outvars, outputs, strict=True))
            yield _Equation(equation.primitive, inputs, outputs, equation.params)
            continue
        inner = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
        names.update(zip(inner.jaxpr.invars, inputs, strict=True))
        yield from _flat(inner, names, lowering)
        made = [_known(names, var) for var in inner.jaxpr.outvars]
        names.update(zip(equation.outvars, made, strict=True))


class _Result:
    """What an equation makes, each time that it is met."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval


def _known(names: Mapping[Any, Any], var: Any) -> Any:
    return var if isinstance(var, Literal) else names.get(var, var)


def _needed(equations: Sequence[_Equation], results: Sequence[Any]) -> list[_Equation]:
    """Without the equations whose results nobody asks for."""
    wanted = {var for var in results if not isinstance(var, Literal)}
    kept = []
    for equation in reversed(equations):
        if wanted.isdisjoint(equation.outputs):
            continue
        kept.append(equation)
        inputs = equation.inputs[:1] if _is_whole(equation) else equation.inputs
        wanted.update(var for var in inputs if not isinstance(var, Literal))
    return kept[::-1]


def _is_whole(equation: _Equation) -> bool:
    """A slice as long as what it is taken from: where it begins does not matter."""
    return (
        equation.name == "dynamic_slice"
        and equation.params["slice_sizes"] == equation.inputs[0].aval.shape
    )


class _Lowering:
    """A program in the making, and where each variable's values stand."""

    def __init__(self) -> None:
        self.program, self.arena = Program(), 0
        self.places: dict[Any, Place] = {}
        self.values: dict[int, Any] = {}
        self._blocks = 1  # block 0 is the arena
        self._in_block: dict[int, list[Any]] = {}
        self._overwritten: set[int] = set()

    def new_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def constant(self, value: Any) -> "_Result":
        """A variable for values that never change."""
        array = value if isinstance(value, jax.Array) else np.asarray(value, order="C")
        block, var = self.new_block(), _Result(jax.typeof(array))
        self.values[block] = array
        self.put(var, Place(block, 0, array.shape, np.dtype(array.dtype)))
        return var

    def place(self, var: Any) -> Place:
        if isinstance(var, Literal):
            aval: Any = var.aval
            var = self.constant(np.asarray(var.val, aval.dtype).reshape(aval.shape))
        place = self.places[var]
        if id(var) in self._overwritten:
            raise Unsupported("an array is read after another was written over it")
        return place

    def put(self, var: Any, place: Place) -> Place:
        """Where the variable's values stand from now on."""
        self.places[var] = place
        self._in_block.setdefault(place.block, []).append(var)
        return place

    def _write_over(self, place: Place, var: Any) -> Place:
        """A result in the memory of an operand: whatever else stands there has been."""
        end = place.offset + place.size
        for other in self._in_block[place.block]:
            stands = self.places[other]
            if stands.offset < end and place.offset < stands.offset + stands.size:
                self._overwritten.add(id(other))
        return self.put(var, place)

    def room(self, var: Any) -> Place:
        """Memory for a new result."""
        shape, dtype = var.aval.shape, np.dtype(var.aval.dtype)
        if dtype not in XLA_TYPES:
            raise Unsupported(f"arrays of type {dtype}")
        place = self.put(var, Place(0, self.arena, shape, dtype))
        self.arena += -(-place.size // ALIGNMENT) * ALIGNMENT
        return place

    def add(self, equation: _Equation) -> None:
        """The call that makes an equation's results, or another view of what there is."""
        name = equation.name
        if name == "ffi_call":
            self._add_kernel(equation)
        elif (view := VIEWS.get(name)) is not None:
            first = self.place(equation.inputs[0]) if equation.inputs else None
            for var, place in zip(equation.outputs, view(equation, first, self), strict=True):
                self.put(var, place)
        elif all(map(self._is_constant, equation.inputs)):
            self._fold(equation)
        elif name in ARITHMETIC:
            self._add_arithmetic(equation)
        else:
            raise Unsupported(f"the operation {name}")

    def _is_constant(self, var: Any) -> bool:
        return isinstance(var, Literal) or self.places[var].block in self.values

    def _fold(self, equation: _Equation) -> None:
        """What depends on nothing but constants is computed once, by XLA."""
        given = [jax.numpy.asarray(self._spread_value(var)) for var in equation.inputs]
        made = equation.primitive.bind(*given, **equation.params)
        results = made if equation.primitive.multiple_results else [made]
        for var, value in zip(equation.outputs, results, strict=True):
            self.put(var, self.places[self.constant(value)])

    def _spread_value(self, var: Any) -> np.ndarray:
        """The values of a constant in their variable's shape: of a repeated scalar one is kept."""
        values, shape = self._value(self.place(var)), var.aval.shape
        return np.broadcast_to(values.reshape(() if values.size == 1 else shape), shape)

    def _value(self, place: Place) -> np.ndarray:
        """The values of a constant."""
        memory = np.ascontiguousarray(self.values[place.block]).reshape(-1).view(np.uint8)
        end = place.offset + place.size
        return memory[place.offset : end].view(place.dtype).reshape(place.shape)

    def _add_kernel(self, equation: _Equation) -> None:
        params = equation.params
        attributes = {name: held.val for name, held in params["attributes"]}
        arguments = [self.place(var) for var in equation.inputs]
        aliases = {output: given for given, output in params["input_output_aliases"]}
        results = []
        for number, var in enumerate(equation.outputs):
            if number not in aliases:
                results.append(self.room(var))
                continue
            results.append(self._write_over(arguments[aliases[number]], var))
        self.program.add(params["target_name"], arguments, results, **attributes)

    def _add_arithmetic(self, equation: _Equation) -> None:
        out = equation.outputs[0].aval
        inputs = [self.place(var) for var in equation.inputs]
        if any(_count(place.shape) not in (1, _count(out.shape)) for place in inputs):
            raise Unsupported(f"{equation.name} of arrays of different sizes")
        if any(place.dtype not in COUNTED for place in (*inputs, Place(0, 0, (), out.dtype))):
            raise Unsupported(f"{equation.name} of {[str(place.dtype) for place in inputs]}")
        result = self.room(equation.outputs[0])
        sizes = np.array([ARITHMETIC[equation.name]], np.int32)
        self.program.add("masu_arithmetic", inputs, [result], np.zeros(0, np.float32), sizes)


def _count(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _same(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    assert first is not None
    return [replace(first, shape=equation.outputs[0].aval.shape)]


def _whole(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    if not _is_whole(equation):
        raise Unsupported("a slice whose place is known late")
    return _same(equation, first, lowering)


def _spread(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    """A broadcast which adds axes of one; a scalar stays one, for arithmetic takes it as it is."""
    assert first is not None
    shape = equation.outputs[0].aval.shape
    if _count(first.shape) == 1:
        return [first]
    if _count(first.shape) != _count(shape):
        raise Unsupported("an array repeated along an axis")
    return [replace(first, shape=shape)]


def _transposed(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    """Axes of one may stand anywhere."""
    assert first is not None
    order = [axis for axis in equation.params["permutation"] if first.shape[axis] != 1]
    if order != sorted(order):
        raise Unsupported("a transposition that moves data")
    return _same(equation, first, lowering)


def _part(place: Place, axis: int, start: int, size: int) -> Place:
    """Some of the places along one axis, which must lie side by side."""
    if _count(place.shape[:axis]) != 1 and size != place.shape[axis]:
        raise Unsupported("a slice of several rows")
    step = _count(place.shape[axis + 1 :]) * place.dtype.itemsize
    shape = (*place.shape[:axis], size, *place.shape[axis + 1 :])
    return replace(place, offset=place.offset + start * step, shape=shape)


def _sliced(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    assert first is not None
    params = equation.params
    if params["strides"] is not None and any(step != 1 for step in params["strides"]):
        raise Unsupported("a slice with steps")
    bounds = zip(params["start_indices"], params["limit_indices"], strict=True)
    for axis, (start, limit) in enumerate(bounds):
        first = _part(first, axis, start, limit - start)
    return [first]


def _split(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    assert first is not None
    axis, start, parts = equation.params["axis"], 0, []
    for size in map(int, equation.params["sizes"]):
        parts.append(_part(first, axis, start, size))
        start += size
    return parts


def _counted(equation: _Equation, first: Place | None, lowering: _Lowering) -> list[Place]:
    """0, 1, 2 ... along an axis."""
    params = equation.params
    axis, shape = params["dimension"], params["shape"]
    values = np.broadcast_to(
        np.arange(shape[axis], dtype=params["dtype"]).reshape(
            [-1 if place == axis else 1 for place in range(len(shape))]
        ),
        shape,
    )
    return [lowering.places[lowering.constant(values)]]


View = Callable[[_Equation, Place | None, _Lowering], list[Place]]

VIEWS: Mapping[str, View] = {
    **dict.fromkeys(SAME_MEMORY, _same),
    "dynamic_slice": _whole,
    "broadcast_in_dim": _spread,
    "transpose": _transposed,
    "slice": _sliced,
    "split": _split,
    "iota": _counted,
}
"""Operations that move no data, for one row."""
