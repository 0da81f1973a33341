"""A loaded language model: token ids in, logits out, with explicit state."""

from dataclasses import replace

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import ACTIVATION_DTYPES, Array, Backend, wide_dtype
from masu.runtime.backends import load_backend
from masu.runtime.blocks import decoder, layer, rope
from masu.runtime.blocks.decoder import EntryConfig, ExitConfig
from masu.runtime.blocks.registry import MIXERS
from masu.runtime.blocks.wiring import Wiring
from masu.runtime.loader import Loader, TensorSource
from masu.runtime.prompt import TokenIds, checked_ids
from masu.runtime.state import SMALLEST_CAPACITY, State, bucket
from masu.specs.errors import RequestError
from masu.specs.model import LanguageModelConfig

PREFILL = 64
"""Rows of a prefill step; a shorter rest is padded, so that one program serves all lengths.

Large enough that the product's arithmetic, not the reading of weights, takes the time.
"""

LAYER_STATE = 2
"""Where `layer.apply` takes the state among its arrays."""


def load_model(
    source: TensorSource, *, dtype: str | None = None, backend: str | Backend | None = None
) -> "Decoder":
    """A language model whose every tensor was asked for, found as expected, and read.

    Args:
        dtype: of the activations; None follows the package's parameters, as the engine does (the
            numpy backend: float64).
        backend: a name, or a backend to share compiled code with; None takes the default.

    Raises:
        RequestError: blocks this runtime lacks; no such backend, or it lacks the dtype.
        SchemaError: config.json contradicts itself.
        TensorError: the tensors are not those that the blocks ask for.
    """
    config = admit(source.config)
    chosen = backend if isinstance(backend, Backend) else load_backend(backend)
    dtype = chosen.default_dtype(source.dtype) if dtype is None else dtype
    if dtype not in chosen.dtypes:
        known = ", ".join(chosen.dtypes)
        raise RequestError(f"backend {chosen.name!r} has no dtype {dtype!r}; it has: {known}")
    loader = Loader(source, chosen, ACTIVATION_DTYPES[dtype])
    model = Decoder(config, loader.under("decoder"), chosen, ACTIVATION_DTYPES[dtype])
    loader.finish()
    return model


class Decoder:
    """Weights and compiled steps of a language model. Made by `load_model`.

    Attributes:
        config: of the whole package.
        backend: what computes.
        dtype: of the activations, and of what the state keeps.
        context_length: the most tokens that a state may hold; None without a limit.
    """

    def __init__(
        self, config: LanguageModelConfig, loader: Loader, backend: Backend, dtype: np.dtype
    ) -> None:
        self.config, self.backend, self.dtype = config, backend, dtype
        model = config.decoder_config
        self._layer_configs = model.transformer_config.layer_configs
        self._wiring = Wiring.of(model.transformer_config)
        limits = [rope.max_sequence_length for rope in self._wiring.ropes]
        self.context_length = min(limits, default=None)
        self._entry = decoder.load_entry(model, loader)
        self._layers = [
            decoder.load_layer(model, loader, index) for index in range(len(self._layer_configs))
        ]
        self._exit = decoder.load_exit(model, loader, self._entry)
        self._enter = backend.compile(decoder.enter, EntryConfig.of(model, dtype))
        self._steps = [
            backend.compile(layer.apply, layer.body_config(each), donate=(LAYER_STATE,))
            for each in self._layer_configs
        ]
        self._leave = backend.compile(decoder.leave, ExitConfig.of(model))
        self._leave_row = backend.compile(decoder.leave_row, ExitConfig.of(model))

    def start(self, max_length: int) -> State:
        """The state before the first token of a run that will hold at most `max_length`.

        Raises:
            RequestError: nothing, or more than the model's context.
        """
        if max_length < 1 or (self.context_length or max_length) < max_length:
            most = "" if self.context_length is None else f" and at most {self.context_length}"
            raise RequestError(f"a run has at least 1{most} tokens, not {max_length}")
        layers = (
            MIXERS[type(mixer)].start(self.backend, mixer, SMALLEST_CAPACITY, self.dtype)
            for mixer in (each.mixer_config for each in self._layer_configs)
        )
        rotations = (
            rope.rotation(config, max_length, self.backend, wide_dtype(self.dtype))
            for config in self._wiring.ropes
        )
        return State(tuple(layers), tuple(rotations), 0, 0, SMALLEST_CAPACITY, max_length)

    def advance(self, state: State, ids: TokenIds) -> tuple[np.ndarray, State]:
        """Run the next tokens: float32 logits `[tokens, vocab]`, and the state after them.

        The state passed in is given up.

        Raises:
            RequestError: no ids, an id outside the vocabulary, more than `max_length` tokens, or
                a state that was given up before.
        """
        state, chunks = self._take(state, ids)
        logits = []
        for chunk in chunks:
            x = self._leave(self._exit, self._run(state, chunk))
            logits.append(self.backend.to_numpy(x)[: len(chunk)].astype(np.float32))
        return np.concatenate(logits), state

    def last_logits(self, state: State, ids: TokenIds) -> tuple[np.ndarray, State]:
        """As `advance`, but with logits `[vocab]` of the last token only."""
        state, chunks = self._take(state, ids)
        for chunk in chunks[:-1]:
            self._run(state, chunk)
        x = self._run(state, chunks[-1])
        row = self._leave_row(self._exit, x, np.int32(len(chunks[-1]) - 1))
        return self.backend.to_numpy(row).astype(np.float32), state

    def logits(self, ids: TokenIds) -> np.ndarray:
        """Float32 logits `[tokens, vocab]` of a whole sequence."""
        return self.advance(self.start(max(len(ids), 1)), ids)[0]

    def fork(self, state: State) -> State:
        """A copy of a state, to go on from one place twice; `state` is not given up.

        Raises:
            RequestError: it was given up before.
        """
        state.check_unspent()
        layers = (
            kept if kept is None else type(kept)(*map(self.backend.copy, kept))
            for kept in state.layers
        )
        return replace(state, layers=tuple(layers))

    def _take(self, state: State, ids: TokenIds) -> tuple[State, list[np.ndarray]]:
        """The state to work on, and the ids in steps of at most `PREFILL`."""
        tokens = checked_ids(ids, self.config.decoder_config.vocab_size)
        reached = state.position + len(tokens)
        if reached > state.max_length:
            raise RequestError(
                f"{reached} tokens are more than the {state.max_length} this run was started for"
            )
        state = state.give_up()
        state.base = state.position
        return state, [tokens[at : at + PREFILL] for at in range(0, len(tokens), PREFILL)]

    def _run(self, state: State, ids: np.ndarray) -> Array:
        """One step, which updates the state; the stream `[rows, width]`, padding included."""
        padded = np.pad(ids, (0, 0 if len(ids) == 1 else PREFILL - len(ids)))
        position, length = np.int32(state.position), np.int32(state.position + len(ids))
        self._make_room(state, int(length))
        state.position = int(length)
        x, angles = self._enter(self._entry, padded, position, state.rotations)
        states = list(state.layers)
        for index, step in enumerate(self._steps):
            context = self._wiring.context(index, position, length, angles, states)
            x, states[index] = step(self._layers[index], x, states[index], context)
        state.layers = tuple(states)
        return x

    def _make_room(self, state: State, length: int) -> None:
        if length <= state.capacity:
            return
        state.capacity = bucket(length)
        state.layers = tuple(
            MIXERS[type(each.mixer_config)].grow(self.backend, kept, state.capacity)
            for each, kept in zip(self._layer_configs, state.layers, strict=True)
        )
