"""uzu 0.5 (facts of 0.5.19): other attention keys, no layer convolutions, row-major planes."""

from collections.abc import Iterator, Mapping
from typing import Any

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.parallel_mixer import ParallelMixerConfig
from masu.specs.dialect import Dialect
from masu.specs.engine import Breach, Candidate, EngineProfile, Rule
from masu.specs.engine_block_rules import (
    BLOCK_RULES,
    DELTA_KERNELS_05,
    GATE_BIASES,
    MAMBA_BIASES,
    PLAIN_MLPS,
)
from masu.specs.engine_expert_rules import MIXTURE_RULES
from masu.specs.engine_format_rules import (
    ADAPTER_RULES,
    ROTATION_RULES,
    code_bits,
    group_sizes,
    hadamard_blocks,
    known_formats,
)
from masu.specs.engine_rules import (
    DRAFTABLE,
    DRAFTED_TABLES,
    MODEL_RULES,
    TYPED_SAMPLERS,
    known_types,
)
from masu.specs.engines import uzu_0_6
from masu.specs.errors import EngineError, SchemaError
from masu.specs.formats.base import Planes
from masu.specs.json_objects import objects, rewritten
from masu.specs.model import ModelConfig, SpeculatorModelConfig
from masu.specs.row_parts import RowPart

TYPES = uzu_0_6.TYPES | {"Mamba2Config"}
FORMATS = frozenset({"FullPrecisionSpec", "IntSpec", "MLXSpec", "HybridSpec", "LowRankSpec"})

OLD_KEYS = {
    "qkvg_projection_config": "qkv_projection_config",
    "has_qkvg_biases": "has_qkv_biases",
    "has_gate": "gate_projection_config",
}
"""Attention's keys, from canonical to 0.5; `gate_projection_config` is null or an empty object."""

LAYER_CONVS = ("mixer_conv_config", "mlp_conv_config")
LATER_KEYS = frozenset({*OLD_KEYS, *LAYER_CONVS, "reasoning_config"})
"""Keys that 0.5 does not know."""

CANONICAL_PROJECTION, OLD_PROJECTION = ".mixer.qkvg_projection.", ".mixer.qkv_projection."
GATE_PROJECTION = ".mixer.gate_projection."


class Dialect05(Dialect):
    """Attention's gate has a projection of its own; newer keys have to be null and disappear."""

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
        return rewritten(config, _decoded)

    def row_parts(self, config: ModelConfig) -> Mapping[str, tuple[RowPart, ...]]:
        return dict(_gated_projections(config))

    def stored_name(self, name: str) -> str:
        return name.replace(CANONICAL_PROJECTION, OLD_PROJECTION)

    def canonical_name(self, stored: str) -> str:
        return stored.replace(OLD_PROJECTION, CANONICAL_PROJECTION)


def _inexpressible(config: Mapping[str, Any]) -> Iterator[Breach]:
    """Each field of a canonical config whose value the dialect has no words for."""
    for place, value in objects(config):
        for key in (*LAYER_CONVS, "reasoning_config"):
            if value.get(key) is not None:
                yield Breach(f"{place}.{key}", "uzu 0.5 has no such field")
        if value.get("has_gate") and value.get("has_qkvg_biases"):
            reason = "true; in uzu 0.5 the gate's own projection has no biases"
            yield Breach(f"{place}.has_qkvg_biases", reason)


def _gated_projections(config: ModelConfig) -> Iterator[tuple[str, tuple[RowPart, ...]]]:
    """Each fused projection with a gate: Q, K and V in one matrix, the gate in another."""
    for path, mixer in _mixers(config):
        attention = getattr(mixer, "attention_config", mixer)
        if not isinstance(attention, AttentionConfig) or not attention.has_gate:
            continue
        *others, gate = attention.row_blocks
        yield (
            f"{path}{CANONICAL_PROJECTION}weights",
            (
                RowPart(f"{path}{OLD_PROJECTION}weights", sum(others)),
                RowPart(f"{path}{GATE_PROJECTION}weights", gate),
            ),
        )


def _mixers(config: ModelConfig) -> Iterator[tuple[str, Any]]:
    """The mixer of each layer, with the layer's path among the tensors."""
    if isinstance(config, SpeculatorModelConfig):
        path = "speculator.draft_model"
        layers = config.speculator_config.draft_config.layer_configs
    else:
        path = f"{config.ROOT}.transformer"
        layers = config.network.transformer_config.layer_configs
    for index, layer in enumerate(layers):
        if not isinstance(getattr(layer, "mixer_config", None), ParallelMixerConfig | None):
            yield f"{path}.layers.{index}", layer.mixer_config


def _encoded(value: dict[str, Any]) -> dict[str, Any]:
    """One object, canonical to 0.5. Places within the object are kept, as 0.5 orders them."""
    if value.get("type") == "AttentionConfig":
        value = {**value, "has_gate": {} if value["has_gate"] else None}
        return {OLD_KEYS.get(key, key): item for key, item in value.items()}
    return {key: item for key, item in value.items() if key not in LATER_KEYS}


def _decoded(value: dict[str, Any]) -> dict[str, Any]:
    """One object, 0.5 to canonical."""
    if value.get("type") == "AttentionConfig":
        new_keys = {old: new for new, old in OLD_KEYS.items()}
        renamed = {new_keys.get(key, key): item for key, item in value.items()}
        gate = renamed.get("has_gate", False)
        # Anything but null and an empty object stays as it is, for the schema to refuse.
        known = {"has_gate": gate == {}} if gate in (None, {}) else {}
        return renamed | (known if "has_gate" in renamed else {})
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


def _unknown_fields(candidate: Candidate) -> Iterator[Breach]:
    for place, value in objects(candidate.config.model_dump()):
        for key in (*LAYER_CONVS, "reasoning_config"):
            if value.get(key) is not None:
                yield Breach(f"{place}.{key}", "uzu 0.5 has no such field")


GROUP_SIZES = (16, 32, 64, 128)

ENGINE = EngineProfile(
    largest_group=max(GROUP_SIZES),
    name="uzu-0.5",
    dialect=Dialect05(),
    rules=(
        known_types(TYPES),
        Rule(
            "known-fields",
            "there are no layer convolutions, and no reasoning_config",
            _unknown_fields,
        ),
        *MODEL_RULES,
        TYPED_SAMPLERS,
        DRAFTABLE,
        DRAFTED_TABLES,
        *BLOCK_RULES,
        DELTA_KERNELS_05,
        PLAIN_MLPS,
        MAMBA_BIASES,
        GATE_BIASES,
        *MIXTURE_RULES,
        known_formats(FORMATS),
        code_bits((4, 8)),
        group_sizes(GROUP_SIZES),
        hadamard_blocks((32, None)),
        *ROTATION_RULES,
        *ADAPTER_RULES,
    ),
)
