"""A sequence being decoded: the ids so far, and the model's state after them."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.rope import LongRoPEConfig
from masu.specs.errors import RequestError


class TokenModel(Protocol):
    """What generation asks of a model; `runtime.model.Decoder` is one."""

    @property
    def context_length(self) -> int | None:
        """The most tokens that a state may hold; None without a limit."""
        ...

    def start(self, max_length: int) -> Any:
        """The state before the first token of a run of at most `max_length` tokens."""
        ...

    def last_logits(self, state: Any, ids: Sequence[int]) -> tuple[np.ndarray, Any]:
        """Float32 logits `[vocab]` after the ids, and the next state; the old one is given up."""
        ...

    @property
    def rewinds(self) -> bool:
        """Whether a state can be cut back to any of its lengths."""
        ...

    def rewind(self, state: Any, length: int) -> Any:
        """The state after its first `length` tokens; the one passed in is given up."""
        ...


UNLIMITED = 2**31 - 1


def boundaries(config: DecoderConfig, context_length: int | None) -> tuple[int, ...]:
    """The lengths up to which runs compute the same: LongRoPE changes at its original context."""
    ropes = (layer.rope_config for layer in config.transformer_config.layer_configs)
    switches = {rope.original_context_length for rope in ropes if isinstance(rope, LongRoPEConfig)}
    last = UNLIMITED if context_length is None else context_length
    return (*sorted(length for length in switches if length < last), last)


class TokenRun:
    """Runs prompts, and does not run again what a prompt has in common with what was run before.

    Args:
        lengths: see `boundaries`. A run is started for the first that suffices, so that it can
            grow; empty, for just what is asked.

    Attributes:
        ids: what the state has seen.
        reused: how many ids of the last prompt were not run again.
        turn: counts the prompts; a generation that is overtaken by another must not go on.
    """

    def __init__(self, model: TokenModel, lengths: Sequence[int] = ()) -> None:
        self._model = model
        self._lengths = lengths
        self._max_length = 0
        self._state: Any = None
        self._logits = np.empty(0, np.float32)
        self.ids: list[int] = []
        self.reused = 0
        self.turn = 0

    def begin(self, prompt: Sequence[int], max_length: int) -> np.ndarray:
        """Logits `[vocab]` after the prompt, in a run that may reach `max_length` tokens."""
        length = next((limit for limit in self._lengths if limit >= max_length), max_length)
        known = _common(self.ids, prompt)
        if self._state is None or length != self._max_length or not self._cut(known, len(prompt)):
            self._state, self._max_length = self._model.start(length), length
            self.ids = []
        known = len(self.ids)
        self.turn, self.reused = self.turn + 1, known
        return self._logits if known == len(prompt) else self._feed(prompt[known:])

    def _cut(self, known: int, wanted: int) -> bool:
        """Go back to the first `known` tokens, or one less: the last one gives the logits."""
        if known == len(self.ids):
            return True
        known = min(known, wanted - 1)
        if known == 0 or not self._model.rewinds:
            return False
        self._state = self._model.rewind(self._state, known)
        self.ids = self.ids[:known]
        return True

    def extend(self, token: int, turn: int) -> np.ndarray:
        """Logits `[vocab]` after one more token of the prompt that was begun as `turn`.

        Raises:
            RequestError: another prompt was begun since.
        """
        if turn != self.turn:
            raise RequestError(
                "another generation has begun on the same run",
                hint="finish one reply of a chat before the next, or use two chats",
            )
        return self._feed([token])

    def _feed(self, ids: Sequence[int]) -> np.ndarray:
        # Until the step returns there is no state: an interrupt must not leave a spent one.
        state, self._state = self._state, None
        self._logits, self._state = self._model.last_logits(state, ids)
        self.ids.extend(ids)
        return self._logits


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(left), len(right)))
