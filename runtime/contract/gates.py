"""The six gates: each looks for one kind of fault, and says what it found, one line a fault."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from masu.runtime.contract.memory import GuardedMemory
from masu.runtime.contract.operation import (
    BFLOAT16,
    FLOAT32,
    TALLEST,
    Call,
    Operation,
    Results,
    prepared,
)
from masu.runtime.contract.subject import Subject

Gate = Callable[[Subject, Operation], Iterator[str]]

DTYPES = (FLOAT32, BFLOAT16)
REPETITIONS = 5
CLASSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NaN": np.isnan,
    "an infinity": np.isposinf,
    "a negative infinity": np.isneginf,
}
ROWS = (1, 2, 7, 16, 100, TALLEST)


def run(
    subject: Subject,
    operation: Operation,
    call: Call,
    dtype: np.dtype,
    *,
    is_compiled: bool = True,
) -> Results:
    with np.errstate(all="ignore"):
        given = prepared(subject.backend, call, dtype)
        return operation.run(subject.backend, given, is_compiled=is_compiled)


def _both(
    subject: Subject, operation: Operation, call: Call, dtype: np.dtype
) -> tuple[Results, Results]:
    """What the subject makes of a call, and the reference's answer."""
    return run(subject, operation, call, dtype), operation.wanted(call, subject.reference)


def non_finite(subject: Subject, operation: Operation) -> Iterator[str]:
    """What is NaN, what is an infinity, and what is finite: class by class as in the reference."""
    for dtype in DTYPES:
        for number, call in enumerate(operation.poisoned(operation.draw(operation.whole, dtype))):
            found, wanted = _both(subject, operation, call, dtype)
            for name, kind in CLASSES.items():
                pairs = zip(found, wanted, strict=True)
                wrong = sum(int((kind(_wide(f)) != kind(_wide(w))).sum()) for f, w in pairs)
                if wrong:
                    yield f"{dtype}, poison {number}: {wrong} values differ in being {name}"


def _wide(values: np.ndarray) -> np.ndarray:
    """Places are told apart by their class: the first one of a row is no other."""
    return np.where(values == 0, np.inf, 0.0) if values.dtype.kind in "iu" else values.astype(float)


def repeatability(subject: Subject, operation: Operation) -> Iterator[str]:
    """The same bytes every time and on any number of threads; nothing else in memory changes."""
    for dtype in DTYPES:
        memory = GuardedMemory()
        call = operation.draw(operation.whole, dtype)
        placed = memory.place_call(call)
        found = []
        for threads in (1, 2) if subject.set_threads else (None,):
            if subject.set_threads and threads:
                subject.set_threads(threads)
            found += [_bytes(run(subject, operation, placed, dtype)) for _ in range(REPETITIONS)]
        try:
            with subject.guarded(memory):
                run(subject, operation, placed, dtype, is_compiled=False)
        except ValueError as problem:
            yield f"{dtype}: {problem}"
        if len(set(found)) > 1:
            yield f"{dtype}: {len(set(found))} different results in {len(found)} calls"
        yield from (f"{dtype}: {name} has changed" for name in _changed(call, placed))
        yield from (f"{dtype}: written beside {name}" for name in memory.broken())


def _bytes(results: Results) -> bytes:
    return b"".join(each.tobytes() for each in results)


def _changed(before: Call, after: Call) -> Iterator[str]:
    for name, values in before.arrays.items():
        if values.tobytes() != after.arrays[name].tobytes():
            yield name
    for ours, theirs in zip(before.weights, after.weights, strict=True):
        for suffix, values in ours.arrays.items():
            if values.tobytes() != theirs.arrays[suffix].tobytes():
                yield f"the matrix's {suffix}"


def tile_edges(subject: Subject, operation: Operation) -> Iterator[str]:
    """Shapes one below, at and above the edges of tiles: nothing is left out or added."""
    for dtype in DTYPES:
        for shape in operation.edges:
            yield from _distance(subject, operation, operation.draw(shape, dtype), dtype, shape)


def _distance(
    subject: Subject, operation: Operation, call: Call, dtype: np.dtype, where: object
) -> Iterator[str]:
    found, wanted = _both(subject, operation, call, dtype)
    yield from beyond(operation, call, found, wanted, dtype, where)


def beyond(
    operation: Operation,
    call: Call,
    found: Results,
    wanted: Results,
    dtype: np.dtype,
    where: object,
) -> Iterator[str]:
    """Where results have other shapes than the reference's, or are further from it than allowed."""
    bounds = operation.bound(call, wanted, dtype)
    for result, goal, bound in zip(found, wanted, bounds, strict=True):
        if result.shape != goal.shape:
            yield f"{dtype}, {where}: shape {result.shape}, not {goal.shape}"
            continue
        error = np.abs(result.astype(np.float64) - goal)
        if not (error <= bound).all():  # which NaN is not, either
            worst = float((error / np.maximum(bound, 1e-300)).max())
            yield f"{dtype}, {where}: {worst:.3g} times the bound"


def wide_sums(subject: Subject, operation: Operation) -> Iterator[str]:
    """Long sums of one sign, in which an accumulator of half precision comes to a halt."""
    if operation.long is not None:
        for dtype in DTYPES:
            call = operation.draw(operation.long, dtype, positive=True)
            yield from _distance(subject, operation, call, dtype, operation.long)


def launch_limits(subject: Subject, operation: Operation) -> Iterator[str]:
    """Every instruction set, many threads, the most scratch, calls at once, and no rows at all."""
    for name in subject.instruction_sets:
        subject.use(name)
        yield from (f"{name}: {problem}" for problem in tile_edges(subject, operation))
    for threads in (1, 3, 64) if subject.set_threads else ():
        if subject.set_threads:
            subject.set_threads(threads)
        call = operation.draw(operation.whole, FLOAT32)
        yield from _distance(subject, operation, call, FLOAT32, f"{threads} threads")
    yield from _scratch(subject, operation)
    yield from _at_once(subject, operation)
    if operation.takes_no_rows:
        shape = (0, *operation.whole[1:])
        call = operation.draw(shape, FLOAT32)
        yield from _distance(subject, operation, call, FLOAT32, "no rows")


def _scratch(subject: Subject, operation: Operation) -> Iterator[str]:
    """The call that needs the most, and that it leaves nothing behind for the next one."""
    if operation.largest is None:
        return
    small, large = (operation.draw(s, FLOAT32) for s in (operation.whole, operation.largest))
    before = _bytes(run(subject, operation, small, FLOAT32))
    yield from _gross(subject, operation, large)
    if _bytes(run(subject, operation, small, FLOAT32)) != before:
        yield f"after {operation.largest} a call of {operation.whole} gives something else"


def _gross(subject: Subject, operation: Operation, call: Call) -> Iterator[str]:
    """A part that is missing altogether; how exact long sums are is for another gate to say."""
    found, wanted = _both(subject, operation, call, FLOAT32)
    for result, goal in zip(found, wanted, strict=True):
        error = np.abs(result.astype(np.float64) - goal).max()
        if not error <= 0.05 * np.abs(goal).max():
            yield f"{operation.largest}: wrong by {error:.3g}"


def _at_once(subject: Subject, operation: Operation) -> Iterator[str]:
    """Two calls at the same time do not meet."""
    everything = operation.draw(operation.whole, FLOAT32)
    half = operation.whole[0] // 2
    calls = [
        prepared(subject.backend, operation.rows(everything, start, start + half), FLOAT32)
        for start in (0, half)
    ]
    alone = [_bytes(operation.run(subject.backend, call)) for call in calls]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(REPETITIONS):
            together = list(pool.map(lambda call: operation.run(subject.backend, call), calls))
            if list(map(_bytes, together)) != alone:
                yield "calls at the same time change each other's results"
                return


def row_invariance(subject: Subject, operation: Operation) -> Iterator[str]:
    """Rows alone, some of them, and all of them: the same bits. Only where that is declared."""
    if operation.operation not in subject.row_invariant:
        return
    for dtype in DTYPES:
        call = prepared(subject.backend, operation.draw(operation.tall, dtype), dtype)
        everything = operation.run(subject.backend, call)[0]
        for rows in ROWS:
            for start in {0, (TALLEST - rows) // 3, TALLEST - rows}:
                found = operation.piece(subject.backend, call, start, start + rows)
                wrong = _different_rows(found, everything[start : start + rows])
                if wrong:
                    yield f"{dtype}: {wrong} of {rows} rows differ from those of {TALLEST}"
        if dtype == DTYPES[-1]:
            yield from _each_alone(subject, operation, call, everything, dtype)


def _each_alone(
    subject: Subject, operation: Operation, call: Call, everything: np.ndarray, dtype: np.dtype
) -> Iterator[str]:
    alone = [
        row
        for row in operation.rows_alone(TALLEST)
        if _different_rows(
            operation.piece(subject.backend, call, row, row + 1), everything[row : row + 1]
        )
    ]
    if alone:
        yield f"{dtype}: {len(alone)} rows differ when alone, the first is row {alone[0]}"


def _different_rows(found: np.ndarray, wanted: np.ndarray) -> int:
    return sum(a.tobytes() != b.tobytes() for a, b in zip(found, wanted, strict=True))


GATES: dict[str, Gate] = {
    "non-finite": non_finite,
    "repeatable": repeatability,
    "tile edges": tile_edges,
    "float32 sums": wide_sums,
    "launch limits": launch_limits,
    "row-invariant": row_invariance,
}


def applies(gate: str, subject: Subject, operation: Operation) -> bool:
    """Whether there is something to be judged at all."""
    if gate == "float32 sums":
        return operation.long is not None
    if gate in ("tile edges", "launch limits") and subject.rounds and operation.rounds_between:
        return False
    return gate != "row-invariant" or operation.operation in subject.row_invariant
