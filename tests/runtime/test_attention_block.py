"""Attention, on both backends, against loops over heads, queries and keys.

The loops share no code with the runtime. float64 agrees to 1e-12, float32 to 1e-5.
"""

import math
from typing import Any

import numpy as np
import pytest
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.blocks import attention
from masu.runtime.blocks.attention import AttentionParameters, KVCache
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.weights import Weight
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.formats.full_precision import FullPrecisionSpec

WIDTH, HEADS, GROUPS, HEAD, TOKENS, CAPACITY = 12, 4, 2, 6, 9, 11
NORM = NormalizationConfig(
    epsilon=1e-3,
    scale_offset=0.5,
    upcast_mode="full_layer",
    subtract_mean=False,
    has_scale=True,
    has_biases=False,
)
PLAIN: dict[str, Any] = {
    "type": "AttentionConfig",
    "qkvg_projection_config": LinearConfig(),
    "out_projection_config": LinearConfig(),
    "query_norm_config": None,
    "key_norm_config": None,
    "num_heads": HEADS,
    "num_groups": GROUPS,
    "head_dim": HEAD,
    "is_causal": True,
    "scale": None,
    "sliding_window_size": None,
    "logit_soft_cap": None,
    "has_sinks": False,
    "has_qkvg_biases": False,
    "has_out_biases": False,
    "has_gate": False,
    "normalize_values": False,
    "is_kv_sharing": False,
}
EVERYTHING: dict[str, Any] = {
    "query_norm_config": NORM,
    "key_norm_config": NORM,
    "scale": 0.7,
    "sliding_window_size": 3,
    "logit_soft_cap": 0.8,
    "has_sinks": True,
    "has_qkvg_biases": True,
    "has_out_biases": True,
    "has_gate": True,
    "normalize_values": True,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one group": {"num_groups": 1},
    "as many groups as heads": {"num_groups": HEADS},
    "bidirectional": {"is_causal": False},
    "bidirectional window": {"is_causal": False, "sliding_window_size": 5},
    **{name: {name: value} for name, value in EVERYTHING.items()},
    "everything": EVERYTHING,
    "sharing": {"is_kv_sharing": True},
    "everything, sharing": {**EVERYTHING, "is_kv_sharing": True},
}


def numbers(name: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(list(name.encode())).standard_normal(shape)


def arrays_of(config: AttentionConfig) -> dict[str, np.ndarray]:
    """Everything random that a case needs, in float64."""
    rows = sum(config.row_blocks)
    half = HEAD // 2
    return {
        "x": numbers("x", TOKENS, WIDTH),
        "qkvg": numbers("qkvg", rows, WIDTH) / 2,
        "qkvg_biases": numbers("qkvg_biases", rows),
        "out": numbers("out", WIDTH, HEADS * HEAD),
        "out_biases": numbers("out_biases", WIDTH),
        "query_norm": numbers("query_norm", HEAD),
        "key_norm": numbers("key_norm", HEAD),
        "sinks": numbers("sinks", HEADS),
        "angles": numbers("angles", TOKENS, half),
        "shared_keys": numbers("shared_keys", config.num_groups, CAPACITY, HEAD),
        "shared_values": numbers("shared_values", config.num_groups, CAPACITY, HEAD),
    }


def run_block(backend: Backend, config: AttentionConfig, dtype: type) -> np.ndarray:
    arrays = {
        name: backend.array(values.astype(dtype)) for name, values in arrays_of(config).items()
    }
    spec = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")

    def linear(name: str, has_biases: bool) -> Linear:
        weights = Weight(spec, {"weights": arrays[name]}, arrays[name].shape, "group_major")
        return Linear(weights, arrays[f"{name}_biases"] if has_biases else None)

    parameters = AttentionParameters(
        linear("qkvg", config.has_qkvg_biases),
        linear("out", config.has_out_biases),
        NormParameters(arrays["query_norm"], None) if config.query_norm_config else None,
        NormParameters(arrays["key_norm"], None) if config.key_norm_config else None,
        arrays["sinks"] if config.has_sinks else None,
    )
    context = Context(
        np.int32(0),
        np.int32(TOKENS),
        (backend.xp.cos(arrays["angles"]), backend.xp.sin(arrays["angles"])),
        KVCache(arrays["shared_keys"], arrays["shared_values"]) if config.is_kv_sharing else None,
    )
    state = attention.start(backend, config, WIDTH, CAPACITY, np.dtype(dtype))
    run = backend.compile(attention.apply, config)
    out, after = run(parameters, arrays["x"], state, context)
    assert (after is None) == config.is_kv_sharing
    return backend.to_numpy(out)


def loops(config: AttentionConfig) -> np.ndarray:
    """The same by the definitions, one number at a time."""
    a = arrays_of(config)
    biases = a["qkvg_biases"] if config.has_qkvg_biases else 0
    projected = a["x"] @ a["qkvg"].T + biases
    queries, keys, values, gates = np.split(projected, np.cumsum(config.row_blocks)[:-1], axis=1)
    out = np.zeros((TOKENS, HEADS * HEAD))
    for token in range(TOKENS):
        for head in range(HEADS):
            place = slice(head * HEAD, (head + 1) * HEAD)
            group = head // (HEADS // config.num_groups)
            query = normed(config.query_norm_config, queries[token, place], a["query_norm"])
            query = turned(query, a["angles"][token])
            scores, seen = [], []
            for other in range(TOKENS):
                if not sees(config, token, other):
                    continue
                key, value = key_and_value(config, a, keys, values, other, group)
                score = (query @ key) * (HEAD**-0.5 if config.scale is None else config.scale)
                if config.logit_soft_cap is not None:
                    score = config.logit_soft_cap * math.tanh(score / config.logit_soft_cap)
                scores.append(score)
                seen.append(value)
            total = sum(math.exp(score) for score in scores)
            total += math.exp(a["sinks"][head]) if config.has_sinks else 0
            for score, value in zip(scores, seen, strict=True):
                out[token, place] += math.exp(score) / total * value
    if config.has_gate:
        out *= 1 / (1 + np.exp(-gates))
    return out @ a["out"].T + (a["out_biases"] if config.has_out_biases else 0)


def sees(config: AttentionConfig, token: int, other: int) -> bool:
    window = config.sliding_window_size or 10**6
    if config.is_causal:
        return other <= token and token - other < window
    return abs(token - other) <= window // 2


def key_and_value(
    config: AttentionConfig,
    a: dict[str, np.ndarray],
    keys: np.ndarray,
    values: np.ndarray,
    token: int,
    group: int,
) -> tuple[np.ndarray, np.ndarray]:
    if config.is_kv_sharing:
        return a["shared_keys"][group, token], a["shared_values"][group, token]
    place = slice(group * HEAD, (group + 1) * HEAD)
    key = normed(config.key_norm_config, keys[token, place], a["key_norm"])
    value = values[token, place]
    if config.normalize_values:
        value = value / math.sqrt(float(np.mean(value**2)) + 1e-6)
    return turned(key, a["angles"][token]), value


def normed(config: NormalizationConfig | None, x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    if config is None:
        return x
    return x / math.sqrt(float(np.mean(x**2)) + config.epsilon) * (scales + 0.5)


def turned(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Channels i and i + half, as the real and imaginary part of a number."""
    half = len(angles)
    pairs = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag])


COMPILED = ["bidirectional window", "everything", "everything, sharing"]
"""Enough for a backend that overrides no part of attention; compiling takes its time."""


@pytest.mark.parametrize(
    ("backend", "variant"),
    [
        *((name, variant) for name in ("numpy", "mlx") for variant in VARIANTS),
        *(("jax", variant) for variant in COMPILED),
    ],
)
def test_against_loops(variant: str, backend: str) -> None:
    config = AttentionConfig.model_validate(PLAIN | VARIANTS[variant])
    dtype, tolerance = (np.float32, 1e-5) if backend != "numpy" else (np.float64, 1e-12)
    found, wanted = run_block(shared_backend(backend), config, dtype), loops(config)
    assert np.abs(found - wanted).max() / wanted.std() < tolerance


def test_every_option_matters() -> None:
    """What `everything` combines would go unnoticed if some option did nothing here."""
    whole = AttentionConfig.model_validate(PLAIN | EVERYTHING)
    for name in EVERYTHING:
        without = whole.model_copy(update={name: PLAIN[name]})
        assert np.abs(loops(without) - loops(whole)).max() > 1e-2, name


@pytest.mark.parametrize("is_causal", [True, False])
def test_rows_past_the_length_are_void(is_causal: bool) -> None:
    """Padding has no influence, whatever stands in it; its own rows stay finite or are ignored."""
    config = AttentionConfig.model_validate(PLAIN | {"is_causal": is_causal})
    backend = shared_backend("numpy")
    queries = numbers("queries", TOKENS, HEADS, HEAD)
    keys, values = numbers("keys", GROUPS, TOKENS, HEAD), numbers("values", GROUPS, TOKENS, HEAD)

    def attend(count: int, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        return backend.attention(
            queries[:count], keys, values, position=np.int32(0), length=np.int32(5), scale=1.0,
            is_causal=config.is_causal, window=None, soft_cap=None, sinks=None,
        )  # fmt: skip

    spoilt = [buffer.copy() for buffer in (keys, values)]
    for buffer in spoilt:
        buffer[:, 5:] = np.nan
    wanted = attend(5, keys[:, :5], values[:, :5])
    assert np.allclose(attend(5, *spoilt), wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", ["jax", "numpy", "mlx"])
def test_padding_past_the_capacity_stays_finite(backend: str) -> None:
    """Its window holds no key at all; numpy would warn of the empty row, and go on with NaN."""
    plain = shared_backend(backend)
    queries, keys, values = (
        plain.array(numbers(name, *shape).astype(np.float32))
        for name, shape in [
            ("queries", (TOKENS, HEADS, HEAD)),
            ("keys", (GROUPS, CAPACITY, HEAD)),
            ("values", (GROUPS, CAPACITY, HEAD)),
        ]
    )
    out = plain.attention(
        queries, keys, values, position=np.int32(CAPACITY - 1), length=np.int32(CAPACITY),
        scale=1.0, is_causal=True, window=2, soft_cap=None, sinks=None,
    )  # fmt: skip
    assert np.isfinite(plain.to_numpy(out)).all()
