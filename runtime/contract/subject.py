"""Who is judged: a backend, what it declares, and how its threads and instruction sets are set."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from masu.runtime.backend import Backend
from masu.runtime.contract.memory import GuardedMemory
from masu.runtime.contract.operation import reference
from masu.runtime.contract.rounded import RoundedReference


def _no_guards(memory: GuardedMemory) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Subject:
    """Attributes:
    backend: what computes.
    row_invariant: operations for which that is declared.
    set_threads: None where the backend leaves threads to its library.
    instruction_sets: those of this processor that the backend has kernels for.
    use: switches to one of them.
    guarded: for the time of it, outputs lie between guards in the memory given.
    """

    backend: Backend
    row_invariant: frozenset[str] = frozenset()
    set_threads: Callable[[int], None] | None = None
    instruction_sets: tuple[str, ...] = ()
    use: Callable[[str], object] = lambda name: None
    guarded: Callable[[GuardedMemory], AbstractContextManager[None]] = field(default=_no_guards)

    @property
    def reference(self) -> Backend:
        """What says what is right."""
        return RoundedReference() if self.rounds else reference()

    @property
    def rounds(self) -> bool:
        """Whether rows of activations that meet stored codes are rounded."""
        return self.backend.activations is not None


@contextmanager
def subject_of(backend: Backend) -> Iterator[Subject]:
    """A backend as it is here. Afterwards threads and instruction set are as they were."""
    if backend.name != "native":
        yield Subject(backend)
        return
    from masu.runtime.backends.native import library
    from masu.runtime.backends.native.guarded import guarded
    from masu.runtime.backends.native.kernels import KERNELS

    invariant = (kernel.operations for kernel in KERNELS if kernel.is_row_invariant)
    threads, chosen = library.threads(), library.instruction_set()
    sets = [name for name in library.INSTRUCTION_SETS if library.use_instruction_set(name)]
    library.use_instruction_set(chosen)
    try:
        yield Subject(
            backend,
            frozenset(name for operations in invariant for name in operations),
            backend.set_threads,
            tuple(sets),
            library.use_instruction_set,
            guarded,
        )
    finally:
        library.set_threads(threads)
        library.use_instruction_set(chosen)
