"""What a run remembers: the state of every layer, and where in the sequence it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from masu.runtime.blocks.rope import Rotation
from masu.runtime.snapshot import restored
from masu.runtime.weights import held_bytes
from masu.specs.errors import RequestError

SMALLEST_CAPACITY = 256


def bucket(length: int) -> int:
    """The capacity that holds so many tokens: a power of two, so that few shapes are compiled."""
    return max(SMALLEST_CAPACITY, 1 << (length - 1).bit_length())


@dataclass(frozen=True)
class Undo:
    """How states of a fixed size go back to before a step, which they no longer hold.

    Attributes:
        fixed: copies of theirs from then (`runtime/snapshot.py`).
        ids: what was run since.
    """

    fixed: tuple[Any, ...]
    ids: tuple[int, ...]


@dataclass
class State:
    """Returned by every step, and given up to the next one, which may write into its arrays.

    Attributes:
        layers: each mixer's own state, None for a layer without one.
        rotations: one for each of the model's RoPE configs, chosen for `max_length`.
        position: tokens so far.
        base: tokens before the last `advance`; what came since can be taken back by `accept`.
            `last_logits` leaves nothing to take back.
        capacity: tokens that the caches have room for.
        max_length: the most tokens that this run may reach.
        is_spent: the state was given up.
        undo: for models with states of a fixed size, the way back to `base`.
        pending: the last tokens of the sequence, where the states have yet to run them: the next
            step does, together with its own.
    """

    layers: tuple[Any, ...]
    rotations: tuple[Rotation, ...]
    position: int
    base: int
    capacity: int
    max_length: int
    is_spent: bool = False
    undo: Undo | None = None
    pending: tuple[int, ...] = ()

    @property
    def held_bytes(self) -> int:
        """Memory of the layers' states, room for later tokens included."""
        return held_bytes(self.layers)

    def give_up(self) -> "State":
        """The same state to go on with; this one must not be used again.

        Raises:
            RequestError: it was given up before.
        """
        self.check_unspent()
        successor = replace(self)
        self.is_spent = True
        return successor

    def check_unspent(self) -> None:
        if self.is_spent:
            raise RequestError(
                "this state was given up to an earlier step",
                hint="go on with the state that the step returned, or fork before it",
            )

    def accept(self, kept: int | Sequence[int]) -> "State":
        """As if the last `advance` had run only some of its tokens; gives this state up.

        Args:
            kept: how many from its start, or the places of a path among its tokens.

        Raises:
            RequestError: more than it ran, or a path that is not its start: trees of candidates
                do not run yet.
        """
        candidates = self.position - self.base
        count = kept if isinstance(kept, int) else len(kept)
        if not isinstance(kept, int) and list(kept) != list(range(count)):
            raise RequestError(f"a tree of candidates cannot be run yet: path {list(kept)}")
        if not 0 <= count <= candidates:
            raise RequestError(f"cannot keep {count} of the last {candidates} tokens")
        # Cache rows past the position are void, so that attention has nothing to undo.
        successor = self.give_up()
        successor.position = successor.base + count
        if self.undo is not None and count < candidates:
            ids = self.undo.ids[: len(self.undo.ids) - candidates + count]
            successor.layers = restored(self.layers, self.undo.fixed)
            successor.undo, successor.pending = replace(self.undo, ids=ids), ids
        return successor

    def rewind(self, length: int) -> "State":
        """As if only the first `length` tokens had been run; gives this state up.

        Only for mixers that keep their rows (`Decoder.rewinds`).

        Raises:
            RequestError: more than it ran.
        """
        if not 0 <= length <= self.position:
            raise RequestError(f"cannot go back to {length} of {self.position} tokens")
        successor = self.give_up()
        successor.position = successor.base = length
        return successor
