"""From what JAX traced to a program of kernel calls, where nothing but kernels is needed.

For one row most of what stands between kernels moves no data: slices, reshapes and transpositions
are the same memory under another shape. What does move data, and sums and products of activations,
are few. Whatever else there is makes the trace unsupported, and XLA runs it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from masu.runtime.backends.native.arena import Life, placed
from masu.runtime.backends.native.equations import Equation, Result, flattened, is_literal
from masu.runtime.backends.native.program import XLA_TYPES, Place, Program
from masu.runtime.backends.native.views import VIEWS, View, part_of, spread, steps_of
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


@dataclass
class Lowered:
    """A program and what is to be bound.

    Attributes:
        constants: what blocks hold from the start, by their number.
        arena: bytes that results need, in block `ARENA`.
        inputs: the block of each argument.
        outputs: where each result stands.
    """

    program: Program
    constants: Mapping[int, Any]
    arena: int
    inputs: list[int]
    outputs: list[Place]


ARENA = 0


@dataclass(frozen=True)
class _Call:
    """A kernel's call, each result in a block of its own unless it is written over an operand."""

    target: str
    arguments: Sequence[Place]
    results: Sequence[Place]
    attributes: Mapping[str, np.ndarray]


def lower(closed: Any) -> Lowered:
    """The program of a closed jaxpr.

    Raises:
        Unsupported: it has an operation that no kernel does.
    """
    lowering = _Lowering()
    inputs = [lowering.new_block() for _ in closed.jaxpr.invars]
    for var, block in zip(closed.jaxpr.invars, inputs, strict=True):
        lowering.put(var, Place(block, 0, var.aval.shape, var.aval.dtype))
    equations, results = flattened(closed, lowering.constant)
    for equation in equations:
        lowering.add(equation)
    outputs = [lowering.whole(var) for var in results]
    return _assembled(lowering, inputs, outputs)


def _assembled(lowering: "_Lowering", inputs: list[int], outputs: list[Place]) -> Lowered:
    """The program of all calls, whose results share an arena."""
    offsets, arena = placed(lowering.lives(outputs))

    def final(place: Place) -> Place:
        start = offsets.get(place.block)
        return place if start is None else replace(place, block=ARENA, offset=start + place.offset)

    program = Program()
    for call in lowering.calls:
        given, made = map(final, call.arguments), map(final, call.results)
        program.add(call.target, list(given), list(made), **call.attributes)
    return Lowered(program, lowering.values, arena, inputs, list(map(final, outputs)))


class _Lowering:
    """Calls in the making, and where each variable's values stand.

    Attributes:
        rooms: the bytes of each result, by its block.
        places: of each variable.
        values: of each constant, by its block.
    """

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.rooms: dict[int, int] = {}
        self.places: dict[Any, Place] = {}
        self.values: dict[int, Any] = {}
        self._blocks = ARENA + 1
        self._in_block: dict[int, list[Any]] = {}
        self._overwritten: set[int] = set()

    def lives(self, outputs: Sequence[Place]) -> dict[int, Life]:
        """From when to when each result's memory is needed; that of the outputs to the end."""
        touched: dict[int, list[int]] = {}
        uses = [(*call.arguments, *call.results) for call in self.calls]
        for number, places in enumerate([*uses, outputs]):
            for place in places:
                touched.setdefault(place.block, []).append(number)
        return {
            block: Life(touched[block][0], touched[block][-1], size)
            for block, size in self.rooms.items()
        }

    def new_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def constant(self, value: Any) -> Result:
        """A variable for values that never change."""
        array = value if isinstance(value, jax.Array) else np.asarray(value, order="C")
        block, var = self.new_block(), Result(jax.typeof(array))
        self.values[block] = array
        self.put(var, Place(block, 0, array.shape, np.dtype(array.dtype)))
        return var

    def place(self, var: Any) -> Place:
        """Where the values stand: all of them, or a single one that is repeated."""
        if is_literal(var):
            aval: Any = var.aval
            var = self.constant(np.asarray(var.val, aval.dtype).reshape(aval.shape))
        place = self.places[var]
        if id(var) in self._overwritten:
            raise Unsupported("an array is read after another was written over it")
        return place

    def whole(self, var: Any) -> Place:
        """Where all of the values stand, for those who take no single one for many."""
        place, shape = self.place(var), var.aval.shape
        if _count(place.shape) == _count(shape):
            return place
        if place.block in self.values:
            repeated = np.broadcast_to(self._value(place).reshape(()), shape)
            return self.put(var, self.places[self.constant(repeated)])
        self._move(place, View(0, shape, (0,) * len(shape)), self._room(var))
        return self.places[var]

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

    def _room(self, var: Any) -> Place:
        """Memory for a new result."""
        shape, dtype = var.aval.shape, np.dtype(var.aval.dtype)
        if dtype not in XLA_TYPES:
            raise Unsupported(f"arrays of type {dtype}")
        place = self.put(var, Place(self.new_block(), 0, shape, dtype))
        self.rooms[place.block] = place.size
        return place

    def add(self, equation: Equation) -> None:
        """The call that makes an equation's results, or another view of what there is."""
        name = equation.name
        if name == "ffi_call":
            self._add_kernel(equation)
        elif name in VIEWS:
            self._add_views(equation)
        elif equation.is_whole:
            self.put(equation.outputs[0], self.place(equation.inputs[0]))
        elif name == "iota":
            self.put(equation.outputs[0], self.places[self.constant(_counted(equation.params))])
        elif all(map(self._is_constant, equation.inputs)):
            self._fold(equation)
        elif name in ARITHMETIC:
            self._add_arithmetic(equation)
        elif name == "concatenate":
            self._add_joined(equation)
        else:
            raise Unsupported(f"the operation {name}")

    def _is_constant(self, var: Any) -> bool:
        return is_literal(var) or self.places[var].block in self.values

    def _fold(self, equation: Equation) -> None:
        """What depends on nothing but constants is computed once, by XLA."""
        given = [jax.numpy.asarray(self._value(self.whole(var))) for var in equation.inputs]
        made = equation.primitive.bind(*given, **equation.params)
        results = made if equation.primitive.multiple_results else [made]
        for var, value in zip(equation.outputs, results, strict=True):
            self.put(var, self.places[self.constant(value)])

    def _value(self, place: Place) -> np.ndarray:
        """The values of a constant."""
        memory = np.ascontiguousarray(self.values[place.block]).reshape(-1).view(np.uint8)
        end = place.offset + place.size
        return memory[place.offset : end].view(place.dtype).reshape(place.shape)

    def _add_kernel(self, equation: Equation) -> None:
        params = equation.params
        attributes = {name: held.val for name, held in params["attributes"]}
        arguments = [self.whole(var) for var in equation.inputs]
        aliases = {output: given for given, output in params["input_output_aliases"]}
        results = []
        for number, var in enumerate(equation.outputs):
            if number not in aliases:
                results.append(self._room(var))
                continue
            results.append(self._write_over(arguments[aliases[number]], var))
        self.calls.append(_Call(params["target_name"], arguments, results, attributes))

    def _add_own(
        self, target: str, arguments: Sequence[Place], result: Place, sizes: Sequence[int]
    ) -> None:
        """A call of a kernel that only programs have."""
        attributes = {"numbers": np.zeros(0, np.float32), "sizes": np.array(sizes, np.int32)}
        self.calls.append(_Call(target, arguments, [result], attributes))

    def _add_arithmetic(self, equation: Equation) -> None:
        out = equation.outputs[0].aval
        inputs = [self._as_long_as(out.shape, var) for var in equation.inputs]
        if any(place.dtype not in COUNTED for place in (*inputs, Place(0, 0, (), out.dtype))):
            raise Unsupported(f"{equation.name} of {[str(place.dtype) for place in inputs]}")
        result = self._room(equation.outputs[0])
        self._add_own("masu_arithmetic", inputs, result, [ARITHMETIC[equation.name]])

    def _as_long_as(self, shape: Shape, var: Any) -> Place:
        """A single value stands for all; what is 1 long along an axis is repeated along it."""
        place = self.place(var)
        if _count(place.shape) in (1, _count(shape)):
            return place
        repeated = self._room(Result(jax.ShapeDtypeStruct(shape, place.dtype)))
        self._move(place, spread(var.aval.shape, shape, range(len(shape))), repeated)
        return repeated

    def _add_views(self, equation: Equation) -> None:
        """Other shapes of the same memory; where the places lie apart, they are put together."""
        [var], views = equation.inputs, list(VIEWS[equation.name](equation))
        place = self.place(var)
        is_single = _count(place.shape) == 1
        if self._is_constant(var) and not is_single and not all(view.is_run for view in views):
            self._fold(equation)
            return
        for result, view in zip(equation.outputs, views, strict=True):
            offset = place.offset + view.start * place.dtype.itemsize
            if is_single:
                shape = view.shape if _count(view.shape) == 1 else ()
                self.put(result, replace(place, shape=shape))
            elif view.is_run:
                self.put(result, replace(place, offset=offset, shape=view.shape))
            else:
                self._move(place, view, self._room(result))

    def _add_joined(self, equation: Equation) -> None:
        """Arrays one after the other along an axis, each put where it belongs."""
        joined, axis, start = self._room(equation.outputs[0]), equation.params["dimension"], 0
        for var in equation.inputs:
            shape = var.aval.shape
            self._move(
                self.whole(var),
                View(0, shape, steps_of(shape)),
                joined,
                part_of(joined.shape, axis, start, shape[axis]),
            )
            start += shape[axis]

    def _move(self, place: Place, view: View, result: Place, into: View | None = None) -> None:
        """Some values of an array, put side by side, or where `into` says."""
        into = into or View(0, view.shape, steps_of(view.shape))
        source, target = (
            replace(whole, offset=whole.offset + part.start * whole.dtype.itemsize)
            for whole, part in ((place, view), (result, into))
        )
        self._add_own("masu_move", [source], target, (*view.shape, *view.steps, *into.steps))


def _count(shape: Shape) -> int:
    return math.prod(shape)


def _counted(params: Mapping[str, Any]) -> np.ndarray:
    """0, 1, 2 ... along an axis; not by XLA, for which a process would load its compiler."""
    axis, shape = params["dimension"], params["shape"]
    others = [place for place in range(len(shape)) if place != axis]
    counted = np.expand_dims(np.arange(shape[axis], dtype=params["dtype"]), others)
    return np.ascontiguousarray(np.broadcast_to(counted, shape))
