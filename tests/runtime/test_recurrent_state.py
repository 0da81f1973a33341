"""States of a fixed size: cut anywhere, taken back, forked, and never touched by padding.

In float64 the ways to run a sequence agree to 1e-9. In float32 chunks of other sizes round
otherwise, most of all with the delta rule: to 1e-4 of the logits' standard deviation.
"""

from typing import Any

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend
from tensor_sources import Random, edited, layers_of

from masu.runtime.blocks.context import Context
from masu.runtime.blocks.registry import MIXERS
from masu.runtime.loader import Loader, TensorSource
from masu.runtime.model import PREFILL, Decoder, load_model
from masu.specs.errors import RequestError
from masu.specs.model import LanguageModelConfig
from masu.specs.package import Package

NORM = {
    "epsilon": 1e-5,
    "scale_offset": None,
    "upcast_mode": "full_layer",
    "subtract_mean": False,
    "has_scale": True,
    "has_biases": False,
}
GENERAL_MAMBA2 = {
    "type": "GeneralMamba2Config",
    "in_projection_config": {},
    "out_projection_config": {},
    "conv_config": {"has_biases": True},
    "norm_config": NORM,
    "norm_before_gate": False,
    "activation": {"type": "SiLU", "alpha": 1.0},
    "kernel_size": 4,
    "num_heads": 4,
    "num_groups": 2,
    "head_dim": 16,
    "state_dim": 8,
    "step_limits": [0.1, 3.0],
    "has_in_biases": True,
    "has_out_biases": True,
}
PARALLEL = {
    "type": "ParallelMixerConfig",
    "attention_config": {
        **Package.open(GOLDEN / "llama" / "engine")
        .config.model_dump()["decoder_config"]["transformer_config"]["layer_configs"][0]
        ["mixer_config"]
    },
    "mamba2_config": GENERAL_MAMBA2,
}  # fmt: skip


def with_mixer(mixer: dict[str, Any]) -> TensorSource:
    """Llamba with another mixer, and random numbers."""

    def exchange(decoder: dict) -> None:
        for layer in layers_of(decoder):
            layer["mixer_config"] = mixer

    return Random(edited(Package.open(GOLDEN / "llamba" / "engine").config, exchange))


SOURCES: dict[str, TensorSource] = {
    "ShortConv and attention": Package.open(GOLDEN / "lfm2" / "engine"),
    "DeltaNet and attention": Package.open(GOLDEN / "qwen3_5" / "engine"),
    "Mamba2": Package.open(GOLDEN / "llamba" / "engine"),
    "GeneralMamba2": with_mixer(GENERAL_MAMBA2),
    "parallel": with_mixer(PARALLEL),
}
IDS = np.random.default_rng(0).integers(0, 320, 90)

each_source = pytest.mark.parametrize("source", SOURCES)


def loaded(source: str, backend: str = "numpy") -> Decoder:
    dtype = "float64" if backend == "numpy" else "float32"
    return load_model(SOURCES[source], dtype=dtype, backend=shared_backend(backend))


def bound(model: Decoder) -> float:
    return 1e-9 if model.dtype == np.float64 else 1e-4


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / wanted.std())


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@each_source
def test_steps_of_any_size(source: str, backend: str) -> None:
    model = loaded(source, backend)
    state, parts = model.start(len(IDS)), []
    for chunk in np.split(IDS, [1, 2, 3, 8, 9, 80, 88]):
        logits, state = model.advance(state, chunk)
        parts.append(logits)
    assert distance(np.concatenate(parts), model.logits(IDS)) < bound(model)


@each_source
def test_token_by_token(source: str) -> None:
    model = loaded(source)
    state, rows = model.start(len(IDS)), []
    for token in IDS[:20]:
        row, state = model.last_logits(state, [token])
        rows.append(row)
    assert distance(np.stack(rows), model.logits(IDS[:20])) < bound(model)


@pytest.mark.parametrize("kept", [0, 1, 4, 9])
@each_source
def test_accept_is_as_if_only_those_had_run(source: str, kept: int) -> None:
    model = loaded(source)
    _, state = model.advance(model.start(90), IDS[:20])
    _, state = model.advance(state, [*IDS[20 : 20 + kept], *([7] * (9 - kept))])
    state = state.accept(kept)
    assert state.position == 20 + kept
    logits, _ = model.advance(state, IDS[20 + kept : 40])
    assert distance(logits, model.logits(IDS)[20 + kept : 40]) < bound(model)


@pytest.mark.parametrize("run", [2, PREFILL])
def test_accept_goes_on_and_on(run: int) -> None:
    """Drafts of which a part is kept, time after time: `run` tokens at a time, then one only."""
    model = loaded("DeltaNet and attention")
    wanted, state, reached = model.logits(IDS[:40]), model.start(300), 20
    _, state = model.advance(state, IDS[:20])
    while reached < 38:
        draft = [*IDS[reached : reached + 2], *([5] * (run - 1))]
        logits, state = model.advance(state, draft)
        assert distance(logits[:2], wanted[reached : reached + 2]) < bound(model)
        state, reached = state.accept(2), reached + 2
    row, state = model.last_logits(state, IDS[38:39])
    assert distance(row, wanted[38]) < bound(model)
    row, state = model.last_logits(state, IDS[39:40])
    assert distance(row, wanted[39]) < bound(model)


def test_accept_of_a_part_of_what_was_accepted() -> None:
    model = loaded("DeltaNet and attention")
    _, state = model.advance(model.start(90), IDS[:20])
    _, state = model.advance(state, [*IDS[20:23], 7, 7, 7])
    state = state.accept(5).accept(4).accept(3)
    with pytest.raises(RequestError, match="cannot keep 4 of the last 3"):
        state.accept(4)
    logits, _ = model.advance(state, IDS[23:40])
    assert distance(logits, model.logits(IDS)[23:40]) < bound(model)


def test_the_last_step_alone_leaves_nothing_to_take_back() -> None:
    model = loaded("Mamba2")
    _, state = model.last_logits(model.start(90), IDS[:20])
    with pytest.raises(RequestError, match="cannot keep 1 of the last 0"):
        state.accept(1)
    assert state.accept(0).position == 20


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_fork_goes_on_twice(backend: str) -> None:
    """Also between accepting a part and running it, when both would share the way back."""
    model = loaded("parallel", backend)
    _, state = model.advance(model.start(90), IDS[:20])
    _, state = model.advance(state, IDS[20:25])
    state = state.accept(3)
    other = model.fork(state)
    first, _ = model.advance(state, IDS[23:30])
    model.advance(model.fork(other), [9] * 10)
    second, _ = model.advance(other.accept(3), IDS[23:30])
    assert np.array_equal(first, second)
    assert distance(first, model.logits(IDS)[23:30]) < bound(model)


def test_such_a_state_cannot_be_rewound() -> None:
    model = loaded("parallel")
    _, state = model.advance(model.start(90), IDS[:20])
    assert not model.rewinds
    with pytest.raises(RequestError, match="cannot go back to an earlier length"):
        model.rewind(state, 10)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@each_source
def test_padding_does_not_touch_the_state(source: str, backend: str) -> None:
    """Three rows of eight count; the others are not even numbers."""
    given = SOURCES[source]
    model, chosen = loaded(source, backend), shared_backend(backend)
    assert isinstance(given.config, LanguageModelConfig)
    stack = given.config.decoder_config.transformer_config
    mixer = stack.layer_configs[0].mixer_config
    loader = Loader(given, chosen, model.dtype)
    for name in ("decoder", "transformer", "layers", "0", "mixer"):
        loader = loader.under(name)
    parameters = MIXERS[type(mixer)].load(mixer, loader, stack.model_dim)
    apply = chosen.compile(MIXERS[type(mixer)].apply, mixer)
    x = np.random.default_rng(1).standard_normal((8, stack.model_dim)).astype(model.dtype)

    def after(rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        state = MIXERS[type(mixer)].start(chosen, mixer, stack.model_dim, 16, model.dtype)
        context = Context(np.int32(0), np.int32(3), None, None)
        out, state = apply(parameters, chosen.array(rows), state, context)
        recurrent = state.mamba2 if source == "parallel" else state
        return chosen.to_numpy(out)[:3], [chosen.to_numpy(array) for array in recurrent]

    poisoned = x.copy()
    poisoned[3:] = np.nan
    out, state = after(poisoned)
    other = x.copy()
    other[3:] = 5
    wanted_out, wanted_state = after(other)
    assert np.isfinite(out).all()
    assert np.array_equal(out, wanted_out)
    for found, wanted in zip(state, wanted_state, strict=True):
        assert np.isfinite(found).all()
        assert np.array_equal(found, wanted)


@each_source
def test_rounding_points_are_the_same_on_every_backend(source: str) -> None:
    """But for single values that fall on the other side: 0.2 % of the logits' spread at most.

    Activations in bfloat16 that are rounded at other places give 1 to 5 %.
    """
    plain, compiled = (
        load_model(SOURCES[source], dtype="bfloat16", backend=shared_backend(name)).logits(IDS)
        for name in ("numpy", "jax")
    )
    assert np.sqrt(np.mean((plain - compiled) ** 2)) / plain.std() < 4e-3
