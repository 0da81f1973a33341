"""One run of the contract: planted faults test the gates, then the gates judge the backend."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from masu.runtime.backend import Backend
from masu.runtime.contract import along_sequence, attention, experts, products, rowwise, step
from masu.runtime.contract.gates import GATES, applies
from masu.runtime.contract.operation import Operation
from masu.runtime.contract.planted import PLANTED
from masu.runtime.contract.sound import SoundBackend
from masu.runtime.contract.subject import Subject, subject_of

OPERATIONS: tuple[Operation, ...] = (
    *products.OPERATIONS,
    *rowwise.OPERATIONS,
    *step.OPERATIONS,
    *attention.OPERATIONS,
    *along_sequence.OPERATIONS,
    *experts.OPERATIONS,
)
"""Every way in which an operation is called. A new kernel's operations need cases here."""


@dataclass(frozen=True)
class Judgement:
    """What one gate says of one operation.

    Attributes:
        operation: of `Backend`; the name of a planted fault where the gate itself was tested.
        problems: empty where it passes.
        applies: there was something to be judged.
        is_planted: the gate was tested.
    """

    operation: str
    gate: str
    problems: tuple[str, ...]
    applies: bool = True
    is_planted: bool = False

    @property
    def passed(self) -> bool:
        return not self.problems


def run_contract(backend: Backend, names: Iterable[str] | None = None) -> Iterator[Judgement]:
    """First every planted fault by its gate, then every operation by every gate.

    Args:
        names: only these operations; None for all.
    """
    yield from planted_judgements()
    chosen = set(operation_names() if names is None else names)
    with subject_of(backend) as subject:
        for name in operation_names():
            if name in chosen:
                ways = [each for each in OPERATIONS if each.operation == name]
                yield from (judged(subject, ways, gate) for gate in GATES)


def operation_names() -> list[str]:
    return list(dict.fromkeys(each.operation for each in OPERATIONS))


def judged(subject: Subject, ways: Sequence[Operation], gate: str) -> Judgement:
    """All ways to call one operation, by one gate."""
    problems = [
        f"{way.label}: {problem}" if way.label else problem
        for way in ways
        if applies(gate, subject, way)
        for problem in _told(subject, way, gate)
    ]
    is_open = any(applies(gate, subject, way) for way in ways)
    return Judgement(ways[0].operation, gate, tuple(problems), is_open)


def _told(subject: Subject, way: Operation, gate: str) -> Iterator[str]:
    """What the gate says; a call that fails altogether is a problem as well."""
    try:
        yield from GATES[gate](subject, way)
    except Exception as failure:
        yield f"{type(failure).__name__}: {failure}"


def planted_subject(fault: type[SoundBackend]) -> Subject:
    """It claims everything."""
    backend = fault()
    return Subject(backend, frozenset(operation_names()), backend.set_threads)


def planted_way(operation: str) -> Operation:
    """The plainest way to call it."""
    ways = (each for each in OPERATIONS if each.operation == operation)
    return next(ways)


def planted_judgements(gates: Iterable[str] = tuple(PLANTED)) -> Iterator[Judgement]:
    """Each planted fault by the gate that must see it: a problem where it does not."""
    for gate in gates:
        for fault, operations in PLANTED[gate].items():
            missed = tuple(
                f"{operation}: the gate does not see it"
                for operation in operations
                if judged(planted_subject(fault), [planted_way(operation)], gate).passed
            )
            yield Judgement(fault.__name__, gate, missed, is_planted=True)
