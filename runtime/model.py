"""A loaded language model: token ids in, logits out, with explicit state."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import decoder
from masu.runtime.blocks.decoder import EntryConfig, ExitConfig
from masu.runtime.blocks.rope import Rotation
from masu.runtime.loader import TensorSource
from masu.runtime.prompt import TokenIds, checked_ids
from masu.runtime.snapshot import copied, fixed_part
from masu.runtime.stack import Stack
from masu.runtime.state import SMALLEST_CAPACITY, State, Undo, bucket
from masu.runtime.strict_load import Opened, strict_load
from masu.runtime.weights import held_bytes
from masu.specs.errors import RequestError
from masu.specs.model import LanguageModelConfig

PREFILL = 64
"""Rows of a prefill step; a shorter rest is padded, so that one program serves all lengths.

Large enough that the product's arithmetic, not the reading of weights, takes the time.
"""


def load_model(
    source: TensorSource, *, dtype: str | None = None, backend: str | Backend | None = None
) -> "Decoder":
    """A language model whose every tensor was asked for, found as expected, and read.

    Args:
        dtype: of the activations; None follows the package's parameters, as the engine does (the
            numpy backend: float64).
        backend: a name, or a backend to share compiled code with; None takes the default.

    Raises:
        RequestError: it is no language model, or has blocks this runtime lacks; no such backend, or
            it lacks the dtype.
        SchemaError: config.json contradicts itself.
        TensorError: the tensors are not those that the blocks ask for.
    """
    config = admit(source.config)
    if not isinstance(config, LanguageModelConfig):
        raise RequestError(
            f"a {config.type} is no language model", hint="`masu classify` is for classifiers"
        )
    with strict_load(source, config.ROOT, dtype, backend) as opened:
        return Decoder(config, opened)


class Decoder:
    """Weights and compiled steps of a language model. Made by `load_model`.

    Attributes:
        config: of the whole package.
        backend: what computes.
        dtype: of the activations, and of what the state keeps.
        context_length: the most tokens that a state may hold; None without a limit.
        rewinds: whether `rewind` works: every mixer keeps a row for each token.
    """

    def __init__(self, config: LanguageModelConfig, opened: Opened) -> None:
        loader, backend, dtype = opened
        model = config.decoder_config
        self.config, self.backend, self.dtype = config, backend, dtype
        self._entry = decoder.load_entry(model, loader)
        self._stack = Stack(model, loader, backend, dtype)
        self._exit = decoder.load_exit(model, loader, self._entry)
        self.context_length = self._stack.context_length
        self.rewinds = self._stack.rewinds
        self._enter = backend.compile(decoder.enter, EntryConfig.of(model, dtype))
        self._leave = backend.compile(decoder.leave, ExitConfig.of(model))
        self._leave_row = backend.compile(decoder.leave_row, ExitConfig.of(model))
        self._run_one = backend.in_one(self._one_row)
        self._run_many: dict[int, Callable[..., tuple[Any, Any]]] = {}
        self._run_exit = backend.in_one(self._exit_row)

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights as the backend holds them, which need not be as they are stored."""
        return held_bytes((self._entry, self._stack.parameters, self._exit))

    @property
    def why_in_parts(self) -> str | None:
        """Why a step of one token is no program of kernels; None if it is one, or none ran."""
        return getattr(self._run_one, "reason", f"the {self.backend.name} backend makes none")

    def start(self, max_length: int) -> State:
        """The state before the first token of a run that will hold at most `max_length`.

        Raises:
            RequestError: nothing, or more than the model's context.
        """
        if max_length < 1 or (self.context_length or max_length) < max_length:
            most = "" if self.context_length is None else f" and at most {self.context_length}"
            raise RequestError(f"a run has at least 1{most} tokens, not {max_length}")
        layers, rotations = self._stack.start(SMALLEST_CAPACITY), self._stack.rotations(max_length)
        return State(layers, rotations, 0, 0, SMALLEST_CAPACITY, max_length)

    def advance(self, state: State, ids: TokenIds) -> tuple[np.ndarray, State]:
        """Run the next tokens: float32 logits `[tokens, vocab]`, and the state after them.

        The state passed in is given up.

        Raises:
            RequestError: no ids, an id outside the vocabulary, more than `max_length` tokens, or
                a state that was given up before.
        """
        state, tokens = self._take(state, ids)
        tokens, again = self._with_pending(state, tokens)
        if not self.rewinds:
            fixed = copied(self.backend, fixed_part(state.layers))
            state.undo = Undo(fixed, tuple(tokens.tolist()))
        logits = []
        for chunk in _chunks(tokens):
            x = self._leave(self._exit, self._run(state, chunk))
            logits.append(self.backend.to_numpy(x)[: len(chunk)].astype(np.float32))
        return np.concatenate(logits)[again:], state

    def last_logits(self, state: State, ids: TokenIds) -> tuple[np.ndarray, State]:
        """As `advance`, but with logits `[vocab]` of the last token only."""
        state, tokens = self._take(state, ids)
        tokens, _ = self._with_pending(state, tokens)
        *chunks, last = _chunks(tokens, self.backend.longest_step)
        for chunk in chunks:
            self._run(state, chunk)
        row = self._last_row(state, last)
        state.base, state.undo = state.position, None
        return self.backend.to_numpy(row).astype(np.float32), state

    def logits(self, ids: TokenIds) -> np.ndarray:
        """Float32 logits `[tokens, vocab]` of a whole sequence."""
        return self.advance(self.start(max(len(ids), 1)), ids)[0]

    def streams(self, ids: TokenIds, given: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The stream `[tokens, width]` after the entry and after each layer, read from nothing.

        Args:
            ids: at most `PREFILL`.
            given: for each layer what it gets in place of what the layer before it made.

        Raises:
            RequestError: no ids, more than `PREFILL`, or one outside the vocabulary.
        """
        tokens = checked_ids(ids, self.config.network.vocab_size)
        if len(tokens) > PREFILL:
            raise RequestError(f"streams are of at most {PREFILL} tokens, not {len(tokens)}")
        state, spare = self.start(len(tokens)), (0, PREFILL - len(tokens))
        entered = self._enter(self._entry, np.pad(tokens, spare), np.int32(0), state.rotations)
        inputs = given and [self.backend.array(np.pad(x, (spare, (0, 0)))) for x in given]
        layers = self._stack.streams(
            entered, state.layers, np.int32(0), np.int32(len(tokens)), inputs
        )
        return [self.backend.to_numpy(x)[: len(tokens)] for x in [entered.stream, *layers]]

    def fork(self, state: State) -> State:
        """A copy of a state, to go on from one place twice; `state` is not given up.

        Raises:
            RequestError: it was given up before.
        """
        state.check_unspent()
        undo = state.undo and replace(state.undo, fixed=copied(self.backend, state.undo.fixed))
        return replace(state, layers=copied(self.backend, state.layers), undo=undo)

    def rewind(self, state: State, length: int) -> State:
        """The state after its first `length` tokens; `state` is given up.

        Raises:
            RequestError: it never had so many, was given up before, or a mixer's state cannot be
                cut (`rewinds`).
        """
        if not self.rewinds:
            raise RequestError("a mixer of this model cannot go back to an earlier length")
        return state.rewind(length)

    def _take(self, state: State, ids: TokenIds) -> tuple[State, np.ndarray]:
        """The state to work on, and the ids to run."""
        tokens = checked_ids(ids, self.config.decoder_config.vocab_size)
        reached = state.position + len(tokens)
        if reached > state.max_length:
            raise RequestError(
                f"{reached} tokens are more than the {state.max_length} this run was started for"
            )
        state = state.give_up()
        state.base = state.position
        return state, tokens

    def _with_pending(self, state: State, tokens: np.ndarray) -> tuple[np.ndarray, int]:
        """The ids to run with those still to be run before them, and how many these are.

        They share a step where they fit into one, for it costs no more; otherwise they run now.
        """
        again = np.asarray(state.pending, tokens.dtype)
        state.position, state.pending = state.position - len(again), ()
        if len(again) + len(tokens) <= PREFILL:
            return np.concatenate([again, tokens]), len(again)
        for chunk in _chunks(again, self.backend.longest_step):
            self._run(state, chunk)
        return tokens, 0

    def _last_row(self, state: State, ids: np.ndarray) -> Array:
        """One step, which updates the state; the logits `[vocab]` of its last row."""
        if len(ids) > 1:
            last = self.backend.to_numpy(self._run(state, ids))[len(ids) - 1 : len(ids)]
            return self._run_exit(last, ())[0]
        position, length = self._move(state, 1)
        row, state.layers = self._run_one(ids, position, length, state.rotations, state.layers)
        return row

    def _one_row(self, *step: Any) -> tuple[Array, tuple[Any, ...]]:
        """The logits `[vocab]` of a single row, and the states after it; as `_many_rows`."""
        x, layers = self._many_rows(*step)
        return self._leave_row(self._exit, x, np.int32(0)), layers

    def _many_rows(
        self,
        ids: np.ndarray,
        position: Array,
        length: Array,
        rotations: tuple[Rotation, ...],
        layers: tuple[Any, ...],
    ) -> tuple[Array, tuple[Any, ...]]:
        """The stream `[rows, width]` of all rows, and the states after them."""
        entered = self._enter(self._entry, ids, position, rotations)
        return self._stack.run(entered, layers, position, length)

    def _exit_row(self, x: np.ndarray, nothing: tuple[()]) -> tuple[Array, tuple[()]]:
        """The logits `[vocab]` of a stream of one row."""
        return self._leave_row(self._exit, x, np.int32(0)), nothing

    def _run(self, state: State, ids: np.ndarray) -> Array:
        """One step, which updates the state; the stream `[rows, width]`, padding included."""
        padded = np.pad(ids, (0, PREFILL - len(ids) if 1 < len(ids) < PREFILL else 0))
        position, length = self._move(state, len(ids))
        rows = len(padded)
        if rows not in self._run_many:
            self._run_many[rows] = self.backend.in_one(self._many_rows)
        run = self._run_many[rows]
        x, state.layers = run(padded, position, length, state.rotations, state.layers)
        return x

    def _move(self, state: State, count: int) -> tuple[np.int32, np.int32]:
        """Where a step of so many rows begins and ends, with room made for it."""
        position, length = state.position, state.position + count
        self._make_room(state, length)
        state.position = length
        return np.int32(position), np.int32(length)

    def _make_room(self, state: State, length: int) -> None:
        if length > state.capacity:
            state.capacity = bucket(length)
            state.layers = self._stack.grow(state.layers, state.capacity)


def _chunks(tokens: np.ndarray, longest: int = 0) -> list[np.ndarray]:
    """The ids in steps of `longest` as far as they fill them, then of at most `PREFILL`."""
    long = len(tokens) // longest * longest if longest else 0
    starts = [*range(0, long, longest or 1), *range(long, len(tokens), PREFILL), len(tokens)]
    return [tokens[start:end] for start, end in pairwise(starts)]
