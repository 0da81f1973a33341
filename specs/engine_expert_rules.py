"""Limits of mixtures of experts."""

from collections.abc import Iterator
from typing import Any

from masu.specs.engine import Breach, Candidate, Rule
from masu.specs.engine_places import layers, of_type
from masu.specs.formats.full_precision import FullPrecisionSpec

MIXTURE = "MixtureOfExpertsConfig"
MAX_EXPERTS, MAX_ACTIVE, WIDTH_MULTIPLE = 512, 128, 4


def _mixtures(candidate: Candidate) -> Iterator[Breach]:
    """The config is known, the loader refuses it."""
    for place, _ in of_type(candidate, MIXTURE):
        yield Breach(place, "mixture of experts is not supported")


def _counts(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, MIXTURE):
        for name, most in (
            ("num_routed_experts", MAX_EXPERTS),
            ("num_active_routed_experts", MAX_ACTIVE),
        ):
            if value[name] > most:
                yield Breach(f"{place}.{name}", f"{value[name]}; the engine has up to {most}")


def _shared(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, MIXTURE):
        if value["num_shared_experts"]:
            yield Breach(f"{place}.num_shared_experts", "the engine runs no shared experts")
        if value["gate_config"] is not None:
            yield Breach(f"{place}.gate_config", "the engine runs no shared experts")


def _biases(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, MIXTURE):
        for name, has in _bias_flags(value):
            if not has:
                yield Breach(f"{place}.{name}", "false; the engine asks for all biases")


def _bias_flags(mixture: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    yield "router_has_biases", mixture["router_has_biases"]
    for name in ("has_up_biases", "has_down_biases"):
        if name in mixture["expert_config"]:
            yield f"expert_config.{name}", mixture["expert_config"][name]


def _activations(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, MIXTURE):
        activation = value["expert_config"]["activation"]
        known = activation["type"] == "SiLU" or activation.get("approximate", False)
        if not known:
            reason = "the engine has SiLU and approximate GELU in experts"
            yield Breach(f"{place}.expert_config.activation", reason)


def _widths(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        if layer.config.mlp_config.type == MIXTURE and layer.width % WIDTH_MULTIPLE:
            reason = f"{layer.width} channels, not a multiple of {WIDTH_MULTIPLE}"
            yield Breach(f"{layer.place}.mlp_config", reason)


def _formats(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        if layer.config.mlp_config.type != MIXTURE:
            continue
        for path, format_ in candidate.formats.items():
            if path.startswith(f"{layer.path}.mlp.") and not isinstance(format_, FullPrecisionSpec):
                yield Breach(path, "a mixture's matrices have to be in full precision")


NO_MIXTURES = Rule("no-mixtures", "there is no mixture of experts", _mixtures)
MIXTURE_RULES = (
    Rule("expert-counts", "at most 512 experts, at most 128 of them active", _counts),
    Rule("no-shared-experts", "all experts are routed", _shared),
    Rule("expert-biases", "router and experts have biases", _biases),
    Rule("expert-activations", "experts use SiLU or approximate GELU", _activations),
    Rule("expert-widths", "the width of a model with experts is a multiple of 4", _widths),
    Rule("expert-formats", "router and experts are in full precision", _formats),
)
