"""uzu 0.5 (facts of 0.5.19): other attention keys, no layer convolutions, row-major planes."""

from collections.abc import Iterator, Mapping
from typing import Any

from masu.specs.dialect import Dialect
from masu.specs.engine import Candidate, EngineProfile, Refusal
from masu.specs.engine_rules import (
    code_bits,
    group_sizes,
    hybrid_blocks,
    hybrid_cores,
    hybrid_sides,
    known_formats,
    known_types,
    mean_pooling_only,
    parameters_in,
)
from masu.specs.engines import uzu_0_6
from masu.specs.errors import EngineError, SchemaError
from masu.specs.formats.base import Planes
from masu.specs.formats.low_rank import LowRankSpec
from masu.specs.json_objects import objects, rewritten
from masu.specs.model import LanguageModelConfig

TYPES = uzu_0_6.TYPES | {"Mamba2Config"}
FORMATS = frozenset({"FullPrecisionSpec", "IntSpec", "MLXSpec", "HybridSpec", "LowRankSpec"})

OLD_KEYS = {
    "qkvg_projection_config": "qkv_projection_config",
    "has_qkvg_biases": "has_qkv_biases",
    "has_gate": "gate_projection_config",
}
"""Attention's keys, from canonical to 0.5; `gate_projection_config` is null without a gate."""

LAYER_CONVS = ("mixer_conv_config", "mlp_conv_config")
LATER_KEYS = frozenset({*OLD_KEYS, *LAYER_CONVS, "reasoning_config"})
"""Keys that 0.5 does not know."""

CANONICAL_PROJECTION, OLD_PROJECTION = ".mixer.qkvg_projection.", ".mixer.qkv_projection."


class Dialect05(Dialect):
    """Attention without the fused gate is renamed; newer keys have to be null and disappear."""

    name = "uzu-0.5"
    planes: Planes = "row_major"

    def recognises(self, config: Any) -> bool:
        keys = {key for _, value in objects(config) for key in value}
        # Without attention there is nothing renamed to go by, only what is not there.
        return not keys.isdisjoint(OLD_KEYS.values()) or (
            "mixer_config" in keys and keys.isdisjoint(LATER_KEYS)
        )

    def encode_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        problems = [f"{place}: {reason}" for place, reason in _inexpressible(config)]
        if problems:
            raise EngineError("config.json cannot be written for uzu-0.5", problems=problems)
        return rewritten(config, _encoded)

    def decode_config(self, config: Any) -> Any:
        _refuse_later_keys(config)
        _refuse_gates(config)
        return rewritten(config, _decoded)

    def stored_name(self, name: str) -> str:
        return name.replace(CANONICAL_PROJECTION, OLD_PROJECTION)

    def canonical_name(self, stored: str) -> str:
        return stored.replace(OLD_PROJECTION, CANONICAL_PROJECTION)


def _inexpressible(config: Mapping[str, Any]) -> Iterator[Refusal]:
    """Each field of a canonical config whose value the dialect has no words for."""
    for place, value in objects(config):
        if value.get("has_gate"):
            yield Refusal(
                f"{place}.has_gate", "gated attention has a projection of its own in uzu 0.5"
            )
        for key in (*LAYER_CONVS, "reasoning_config"):
            if value.get(key) is not None:
                yield Refusal(f"{place}.{key}", "uzu 0.5 has no such field")


def _encoded(value: dict[str, Any]) -> dict[str, Any]:
    """One object, canonical to 0.5. Places within the object are kept, as 0.5 orders them."""
    if value.get("type") == "AttentionConfig":
        value = {**value, "has_gate": None}
        return {OLD_KEYS.get(key, key): item for key, item in value.items()}
    return {key: item for key, item in value.items() if key not in LATER_KEYS}


def _decoded(value: dict[str, Any]) -> dict[str, Any]:
    """One object, 0.5 to canonical."""
    if value.get("type") == "AttentionConfig":
        new_keys = {old: new for new, old in OLD_KEYS.items()}
        renamed = {new_keys.get(key, key): item for key, item in value.items()}
        return renamed | ({"has_gate": False} if "has_gate" in renamed else {})
    if value.get("type") == "ChatCodecConfig":
        return {**value, "reasoning_config": None}
    if "mixer_config" in value and "type" not in value:  # kinds of layers that masu adds have one
        return {**value, **dict.fromkeys(LAYER_CONVS)}
    return value


def _refuse_later_keys(config: Any) -> None:
    problems = [
        f"{place}.{key}: not a field of uzu 0.5, whose keys stand beside it"
        for place, value in objects(config)
        for key in sorted(LATER_KEYS.intersection(value))
    ]
    if problems:
        raise SchemaError("config.json mixes the keys of two engine releases", problems=problems)


def _refuse_gates(config: Any) -> None:
    problems = [
        f"{place}.gate_projection_config: expected null"
        for place, value in objects(config)
        if value.get("gate_projection_config") is not None
    ]
    if problems:
        raise EngineError(
            "a package of uzu 0.5 with gated attention cannot be read yet",
            problems=problems,
            hint="convert the source again for uzu-0.6",
        )


def expressible(candidate: Candidate) -> Iterator[Refusal]:
    """Whatever the dialect cannot write, the engine cannot load."""
    yield from _inexpressible(candidate.config.model_dump())


def low_rank_adapters_only(candidate: Candidate) -> Iterator[Refusal]:
    """A product of thin matrices serves as the adapter of a hybrid, never by itself."""
    for path, format_ in candidate.formats.items():
        if isinstance(format_, LowRankSpec):
            yield Refusal(path, "LowRank serves as the adapter of a hybrid only")


def unsupported_samplers(candidate: Candidate) -> Iterator[Refusal]:
    """These defaults are parsed into a type without values: anything but null is an error."""
    if isinstance(candidate.config, LanguageModelConfig):
        for name in ("banned_tokens", "presence_penalty", "frequency_penalty"):
            if getattr(candidate.config.generation_config, name) is not None:
                yield Refusal(f"generation_config.{name}", "the engine has no such sampler")


ENGINE = EngineProfile(
    name="uzu-0.5",
    dialect=Dialect05(),
    rules=(
        known_types(TYPES),
        expressible,
        unsupported_samplers,
        mean_pooling_only,
        parameters_in("BF16"),
        known_formats(FORMATS),
        code_bits((4, 8)),
        group_sizes((16, 32, 64, 128)),
        hybrid_blocks((32, None)),
        hybrid_sides,
        hybrid_cores,
        low_rank_adapters_only,
    ),
)
