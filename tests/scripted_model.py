"""A language model that says what a test wants, and insists that its states are used properly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class ScriptedState:
    ids: list[int]
    max_length: int
    is_spent: bool = False


@dataclass
class ScriptedModel:
    """`logits` gets the whole sequence so far and gives float32 `[vocab]`.

    Attributes:
        fed: how many tokens each step ran.
        started: `max_length` of each run.
    """

    logits: Callable[[list[int]], np.ndarray]
    context_length: int | None = 512
    rewinds: bool = True
    fed: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)

    def start(self, max_length: int) -> ScriptedState:
        self.started.append(max_length)
        return ScriptedState([], max_length)

    def last_logits(
        self, state: ScriptedState, ids: Sequence[int]
    ) -> tuple[np.ndarray, ScriptedState]:
        assert not state.is_spent, "a state was used twice"
        assert len(ids) > 0
        state.is_spent = True
        reached = [*state.ids, *ids]
        assert len(reached) <= state.max_length, "more tokens than the run was started for"
        self.fed.append(len(ids))
        return self.logits(reached), ScriptedState(reached, state.max_length)

    def rewind(self, state: ScriptedState, length: int) -> ScriptedState:
        assert self.rewinds
        assert not state.is_spent, "a state was used twice"
        assert 0 < length < len(state.ids)
        state.is_spent = True
        return ScriptedState(state.ids[:length], state.max_length)


def speaking(reply: Sequence[int], vocab: int, after: int) -> Callable[[list[int]], np.ndarray]:
    """Logits that follow a prompt of `after` tokens with `reply`, whatever the prompt says."""

    def logits(ids: list[int]) -> np.ndarray:
        row = np.zeros(vocab, np.float32)
        row[reply[min(len(ids) - after, len(reply) - 1)]] = 50.0
        return row

    return logits
