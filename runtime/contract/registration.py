"""Whether every kernel says all that the contract asks of it."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from masu.runtime.contract.contract import OPERATIONS
from masu.runtime.contract.operation import reference


class Registered(Protocol):
    """A kernel as it is registered."""

    @property
    def target(self) -> str: ...

    @property
    def operations(self) -> tuple[str, ...]: ...

    @property
    def serves(self) -> str: ...

    @property
    def accumulator(self) -> str: ...

    @property
    def non_finite(self) -> str: ...


def unregistered(kernels: Iterable[Registered]) -> Iterator[str]:
    """What is missing, one line a fault: a reference, shapes, or a word about its numbers."""
    for kernel in kernels:
        if not kernel.operations:
            yield f"{kernel.target}: computes no operation, so there is no reference"
        for word in ("serves", "accumulator", "non_finite"):
            if not getattr(kernel, word):
                yield f"{kernel.target}: says nothing of {word}"
        for operation in kernel.operations:
            if not callable(getattr(reference(), operation, None)):
                yield f"{kernel.target}: {operation} has no reference on the numpy backend"
            if not any(each.operation == operation and each.edges for each in OPERATIONS):
                yield f"{kernel.target}: {operation} has no shapes in masu/runtime/contract"
