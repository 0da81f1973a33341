"""Mixtures of experts: one token and many agree, and each against a loop over its experts."""

from typing import Any

import numpy as np
import pytest
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.backends import backend_names
from masu.runtime.blocks import (
    dense_and_mixture,
    latent_mixture,
    mixture_of_experts,
    shared_expert,
)
from masu.runtime.blocks.dense_and_mixture import DenseAndMixtureParameters
from masu.runtime.blocks.latent_mixture import LatentMixtureParameters
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.mixture_of_experts import ExpertParameters, MixtureParameters
from masu.runtime.blocks.mlp import DenseMLPParameters
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.shared_expert import SharedExpertParameters
from masu.runtime.blocks.ungated_mlp import UngatedMLPParameters
from masu.runtime.mixture_limits import mixture_problems
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import SiLU, SquaredReLU
from masu.specs.blocks.dense_and_mixture import DenseAndMixtureConfig
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.latent_mixture import LatentMixtureConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.blocks.routing import (
    RoutingFunction,
    SigmoidRouting,
    SoftmaxRouting,
    SparseMixerRouting,
)
from masu.specs.blocks.shared_expert import SharedExpertConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig
from masu.specs.formats.full_precision import FullPrecisionSpec

WIDTH, HIDDEN, ROUTED, ACTIVE, TOKENS = 6, 5, 4, 2, 7
X = np.random.default_rng(0).standard_normal((TOKENS, WIDTH)).astype(np.float32)

GATED = DenseMLPConfig(
    type="DenseMLPConfig",
    linear_config=LinearConfig(),
    activation=SiLU(type="SiLU", alpha=1.3),
    has_up_biases=True,
    has_down_biases=True,
    gate_clipping=(None, 0.8),
    up_clipping=(-0.5, 0.9),
)
UNGATED = UngatedMLPConfig(
    type="UngatedMLPConfig",
    linear_config=LinearConfig(),
    activation=SquaredReLU(type="SquaredReLU"),
    has_up_biases=False,
    has_down_biases=False,
)

NORM = NormalizationConfig(
    epsilon=1e-3,
    scale_offset=None,
    upcast_mode="full_layer",
    subtract_mean=False,
    has_scale=True,
    has_biases=False,
)


def config(
    *, shared: int = 0, gate: bool = False, expert: PlainMLPConfig = GATED, **changes: Any
) -> MixtureOfExpertsConfig:
    fields: dict[str, Any] = {
        "expert_config": expert,
        "routing_function": SoftmaxRouting(type="SoftmaxRouting"),
        "num_active_routed_experts": ACTIVE,
        "num_shared_experts": shared,
        "gate_config": LinearConfig() if gate else None,
        **changes,
    }
    return MixtureOfExpertsConfig(
        type="MixtureOfExpertsConfig",
        router_config=LinearConfig(),
        num_routed_experts=ROUTED,
        router_has_biases=True,
        expert_hidden_dim=HIDDEN,
        **fields,
    )


CONFIGS = {
    "routed": config(),
    "one shared": config(shared=1),
    "two shared, gated": config(shared=2, gate=True),
    "ungated": config(expert=UNGATED),
}


def numbers(name: str, *shape: int) -> np.ndarray:
    values = np.random.default_rng(list(name.encode())).standard_normal(shape)
    return values.astype(np.float32)


def arrays_of(mixture: MixtureOfExpertsConfig, width: int = WIDTH) -> dict[str, Any]:
    """`width` is that of the vectors which the experts read."""
    experts, rows = mixture.num_experts, mixture.expert_config.up_rows(HIDDEN)
    has_biases = mixture.expert_config.has_up_biases
    return {
        "router": numbers("router", ROUTED, WIDTH),
        "router_biases": numbers("router biases", ROUTED),
        "up": numbers("up", experts, rows, width),
        "up_biases": numbers("up biases", experts, rows) if has_biases else None,
        "down": numbers("down", experts, width, HIDDEN),
        "down_biases": numbers("down biases", experts, width) if has_biases else None,
        "gate": numbers("gate", 1, WIDTH) if mixture.gate_config is not None else None,
    }


def linear(backend: Backend, matrix: np.ndarray, biases: np.ndarray | None) -> Linear:
    plain = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    weight = Weight(plain, {"weights": matrix}, matrix.shape, "group_major")
    held = backend.hold(weight, np.dtype(np.float32))
    return Linear(held, None if biases is None else backend.array(biases))


def parameters(backend: Backend, arrays: dict[str, Any]) -> MixtureParameters:
    return MixtureParameters(
        router=linear(backend, arrays["router"], arrays["router_biases"]),
        of_experts=None,
        experts=ExpertParameters(
            linear(backend, arrays["up"], arrays["up_biases"]),
            linear(backend, arrays["down"], arrays["down_biases"]),
        ),
        gate=None if arrays["gate"] is None else linear(backend, arrays["gate"], None),
    )


def run(name: str, mixture: MixtureOfExpertsConfig, arrays: dict[str, Any], x: np.ndarray) -> Any:
    backend = shared_backend(name)
    step = backend.compile(mixture_of_experts.apply, mixture)
    return backend.to_numpy(step(parameters(backend, arrays), backend.array(x)))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-1.3 * x))


def expected(
    mixture: MixtureOfExpertsConfig,
    arrays: dict[str, Any],
    x: np.ndarray,
    routed_by: np.ndarray | None = None,
) -> np.ndarray:
    """Token by token, expert by expert, in float64; `routed_by` is what the router reads."""
    out = np.zeros(x.shape)
    by = x if routed_by is None else routed_by
    for token, (row, seen) in enumerate(zip(x.astype(np.float64), by, strict=True)):
        logits = arrays["router"] @ seen + arrays["router_biases"]
        chosen = np.argsort(-logits)[: mixture.num_active_routed_experts]
        shares = np.exp(logits[chosen]) / np.exp(logits[chosen]).sum()
        gate = 1.0 if arrays["gate"] is None else 1 / (1 + np.exp(-(arrays["gate"][0] @ row)))
        for expert, share in [
            *zip(chosen, shares, strict=True),
            *((ROUTED + index, gate) for index in range(mixture.num_shared_experts)),
        ]:
            out[token] += share * one_expert(mixture.expert_config, arrays, expert, row)
    return out


def one_expert(mlp: PlainMLPConfig, arrays: dict[str, Any], expert: int, row: Any) -> np.ndarray:
    if isinstance(mlp, UngatedMLPConfig):
        return arrays["down"][expert] @ np.maximum(arrays["up"][expert] @ row, 0) ** 2
    both = arrays["up"][expert] @ row + arrays["up_biases"][expert]
    up, gate = np.clip(both[:HIDDEN], -0.5, 0.9), np.minimum(both[HIDDEN:], 0.8)
    return arrays["down"][expert] @ (up * silu(gate)) + arrays["down_biases"][expert]


@pytest.mark.parametrize("name", backend_names())
@pytest.mark.parametrize("mixture", CONFIGS.values(), ids=CONFIGS.keys())
def test_many_tokens_and_one_agree_with_the_loop(
    name: str, mixture: MixtureOfExpertsConfig
) -> None:
    """Float32 sums of 6 and 5 products of numbers around 1."""
    arrays = arrays_of(mixture)
    wanted = expected(mixture, arrays, X)
    together = run(name, mixture, arrays, X)
    np.testing.assert_allclose(together, wanted, rtol=1e-4, atol=1e-5)
    one_by_one = [run(name, mixture, arrays, row[None])[0] for row in X]
    np.testing.assert_allclose(np.stack(one_by_one), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", backend_names())
@pytest.mark.parametrize("count", [1, TOKENS])
def test_an_expert_that_nobody_chose_may_be_anything(name: str, count: int) -> None:
    mixture, arrays = CONFIGS["routed"], arrays_of(CONFIGS["routed"])
    arrays["router_biases"] = np.array([0, 0, 0, -1e6], np.float32)
    wanted = run(name, mixture, arrays, X[:count])
    for key in ("up", "down", "down_biases"):
        arrays[key][3] = np.inf if key == "down_biases" else np.nan
    found = run(name, mixture, arrays, X[:count])
    np.testing.assert_array_equal(found, wanted)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", backend_names())
@pytest.mark.parametrize("has_gate", [True, False])
@pytest.mark.parametrize("shared", [GATED, UNGATED], ids=["gated", "ungated"])
def test_a_shared_expert_of_another_width(
    name: str, has_gate: bool, shared: PlainMLPConfig
) -> None:
    backend, wide = shared_backend(name), 9
    mixture, arrays = CONFIGS["routed"], arrays_of(CONFIGS["routed"])
    both = SharedExpertConfig(
        type="SharedExpertConfig",
        mixture_config=mixture,
        shared_config=shared,
        shared_hidden_dim=wide,
        gate_config=LinearConfig() if has_gate else None,
    )
    is_gated = isinstance(shared, DenseMLPConfig)
    up, down = numbers("up", shared.up_rows(wide), WIDTH), numbers("down", WIDTH, wide)
    up_biases: Any = numbers("up biases", len(up)) if is_gated else None
    down_biases: Any = numbers("down biases", WIDTH) if is_gated else None
    gate = numbers("gate", 1, WIDTH)
    mlp = DenseMLPParameters(linear(backend, up, up_biases), linear(backend, down, down_biases))
    given = SharedExpertParameters(
        parameters(backend, arrays), mlp, linear(backend, gate, None) if has_gate else None
    )
    step = backend.compile(shared_expert.apply, both)
    found = backend.to_numpy(step(given, backend.array(X)))
    if is_gated:
        projected = X @ up.T + up_biases
        inner = np.clip(projected[:, :wide], -0.5, 0.9) * silu(np.minimum(projected[:, wide:], 0.8))
        out = inner @ down.T + down_biases
    else:
        out = np.maximum(X @ up.T, 0) ** 2 @ down.T
    share = 1 / (1 + np.exp(-(X @ gate.T))) if has_gate else 1.0
    wanted = expected(mixture, arrays, X) + share * out
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", backend_names())
def test_experts_in_a_latent_space(name: str) -> None:
    backend, latent = shared_backend(name), 4
    routed = CONFIGS["ungated"]
    arrays = arrays_of(routed, latent)
    into, out = numbers("into", latent, WIDTH), numbers("out", WIDTH, latent)
    into_biases, out_biases = numbers("into biases", latent), numbers("out biases", WIDTH)
    between = LatentMixtureConfig(
        type="LatentMixtureConfig",
        in_projection_config=LinearConfig(),
        mixture_config=routed,
        out_projection_config=LinearConfig(),
        latent_dim=latent,
        has_in_biases=True,
        has_out_biases=True,
    )
    given = LatentMixtureParameters(
        linear(backend, into, into_biases),
        parameters(backend, arrays),
        linear(backend, out, out_biases),
    )
    step = backend.compile(latent_mixture.apply, between)
    wanted = expected(routed, arrays, X @ into.T + into_biases, routed_by=X) @ out.T + out_biases
    for x, rows in ((X, wanted), (X[:1], wanted[:1])):
        found = backend.to_numpy(step(given, backend.array(x)))
        np.testing.assert_allclose(found, rows, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", backend_names())
def test_a_dense_mlp_and_experts_side_by_side(name: str) -> None:
    backend, routed = shared_backend(name), CONFIGS["ungated"]
    arrays, wide = arrays_of(routed), 9
    norms, scales = numbers("norms", 2, WIDTH), numbers("scales", 3, WIDTH)
    up, down = numbers("dense up", wide, WIDTH), numbers("dense down", WIDTH, wide)
    both = DenseAndMixtureConfig(
        type="DenseAndMixtureConfig",
        dense_config=UNGATED,
        post_dense_norm_config=NORM,
        mixture_config=routed,
        post_mixture_norm_config=NORM,
    )
    given = DenseAndMixtureParameters(
        *map(backend.array, scales),
        dense=UngatedMLPParameters(linear(backend, up, None), linear(backend, down, None)),
        post_dense_norm=NormParameters(backend.array(norms[0]), None),
        mixture=parameters(backend, arrays),
        post_mixture_norm=NormParameters(backend.array(norms[1]), None),
    )
    step = backend.compile(dense_and_mixture.apply, both)
    dense = np.maximum((X * scales[0]) @ up.T, 0) ** 2 @ down.T
    experts = expected(routed, arrays, X * scales[1], routed_by=X * scales[2])
    wanted = normed(dense) * norms[0] + normed(experts) * norms[1]
    for x, rows in ((X, wanted), (X[:1], wanted[:1])):
        found = backend.to_numpy(step(given, backend.array(x)))
        np.testing.assert_allclose(found, rows, rtol=1e-3, atol=1e-4)


def normed(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + NORM.epsilon)


def sigmoid(groups: int, chosen: int) -> RoutingFunction:
    return SigmoidRouting(
        type="SigmoidRouting",
        has_correction_biases=False,
        is_normalized=True,
        epsilon=0.0,
        scaling_factor=1.0,
        num_groups=groups,
        num_active_groups=chosen,
    )


@pytest.mark.parametrize(
    ("mixture", "says"),
    [
        (config(num_active_routed_experts=5), "num_active_routed_experts 5 is above"),
        (config(gate=True), "no shared expert that it gates"),
        (
            config(
                num_active_routed_experts=1,
                routing_function=SparseMixerRouting(type="SparseMixerRouting", jitter=0.1),
            ),
            "must be 2 for SparseMixerRouting, not 1",
        ),
        (config(routing_function=sigmoid(3, 1)), "not a multiple of num_groups 3"),
        (config(routing_function=sigmoid(4, 2)), "fewer than the two experts that rank a group"),
        (
            config(routing_function=sigmoid(2, 1), num_active_routed_experts=3),
            "1 of 2 groups have fewer than 3 experts",
        ),
    ],
)
def test_contradictions_are_named(mixture: MixtureOfExpertsConfig, says: str) -> None:
    [problem] = mixture_problems(mixture)
    assert says in problem


def test_sound_mixtures_have_no_problems() -> None:
    for mixture in (*CONFIGS.values(), config(routing_function=sigmoid(2, 1))):
        assert not list(mixture_problems(mixture))
    assert not list(mixture_problems(GATED))
