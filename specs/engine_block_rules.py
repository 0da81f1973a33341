"""Limits of blocks: head dims and kernels of mixers, norms of layers, layer convolutions."""

from collections.abc import Iterator
from typing import Any

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.delta_net import DeltaNetConfig
from masu.specs.engine import Breach, Candidate, Rule
from masu.specs.engine_places import layers, of_type
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.model import LanguageModelConfig

ATTENTION_HEADS = (64, 128, 256, 512)
DELTA_HEAD = 128
MULTIPLE = 4
WEAVER_HEAD, WEAVER_POOL = 128, 512


def _head_dims(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "AttentionConfig"):
        if value["head_dim"] not in ATTENTION_HEADS:
            allowed = ", ".join(map(str, ATTENTION_HEADS))
            yield Breach(f"{place}.head_dim", f"{value['head_dim']}; kernels exist for {allowed}")


def _soft_caps(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "AttentionConfig"):
        if value["logit_soft_cap"] is not None:
            reason = "the engine reads it and caps no attention logits"
            yield Breach(f"{place}.logit_soft_cap", reason)


def _static_long_rope(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "LongRoPEConfig"):
        if value["max_sequence_length"] > value["original_context_length"]:
            reason = "the engine takes the long factors for short contexts too"
            yield Breach(f"{place}.short_factor", reason)


def _qk_norms(candidate: Candidate) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, value in of_type(candidate, "AttentionConfig"):
        for name in ("query_norm_config", "key_norm_config"):
            unread = name == "key_norm_config" and value["is_kv_sharing"]
            if value[name] is not None and not unread:
                yield f"{place}.{name}", value[name]


def _qk_norm_biases(candidate: Candidate) -> Iterator[Breach]:
    for place, norm in _qk_norms(candidate):
        if norm["has_biases"]:
            yield Breach(f"{place}.has_biases", "the engine never reads these biases")


def _qk_norm_means(candidate: Candidate) -> Iterator[Breach]:
    for place, norm in _qk_norms(candidate):
        if norm["subtract_mean"]:
            reason = "the engine does not subtract the mean of a query or key"
            yield Breach(f"{place}.subtract_mean", reason)


def _delta_heads(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DeltaNetConfig"):
        for name in ("head_dim", "value_head_dim"):
            if value[name] != DELTA_HEAD:
                yield Breach(f"{place}.{name}", f"{value[name]}; the kernel is for {DELTA_HEAD}")


def _delta_taps(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DeltaNetConfig"):
        if value["kernel_size"] < 2:
            yield Breach(f"{place}.kernel_size", "1; the engine has 2 and more")


def _delta_not_four_taps(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DeltaNetConfig"):
        if value["kernel_size"] != 4:
            yield Breach(f"{place}.kernel_size", f"{value['kernel_size']}; the kernel is for 4")


def _delta_widths(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        mixer = layer.config.mixer_config
        if isinstance(mixer, DeltaNetConfig) and sum(mixer.row_blocks) % 8:
            reason = f"in_proj has {sum(mixer.row_blocks)} rows, not a multiple of 8"
            yield Breach(f"{layer.place}.mixer_config.num_heads", reason)


def _delta_norm_arrays(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DeltaNetConfig"):
        for name, expected in (("has_scale", True), ("has_biases", False)):
            if value["norm_config"][name] != expected:
                reason = "the engine reads scales and nothing else here"
                yield Breach(f"{place}.norm_config.{name}", reason)


def _delta_norm_fields(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DeltaNetConfig"):
        for name in ("scale_offset", "subtract_mean"):
            if value["norm_config"][name]:
                reason = "the engine reads nothing of this norm but its epsilon"
                yield Breach(f"{place}.norm_config.{name}", reason)


def _missing_norms(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        if layer.index > 0 and layer.config.pre_mixer_norm_config is None:
            reason = "null; only the first layer may go without"
            yield Breach(f"{layer.place}.pre_mixer_norm_config", reason)


def _rotation_without_norm(candidate: Candidate) -> Iterator[Breach]:
    """The input of a rotated projection is rotated by the norm before it."""
    for layer in layers(candidate):
        if layer.index > 0 or layer.config.pre_mixer_norm_config is not None:
            continue
        for name in ("qkvg_projection", "in_proj", "in_projection"):
            path = f"{layer.path}.mixer.{name}.weights"
            if isinstance(candidate.formats.get(path), HybridSpec):
                yield Breach(path, "rotated, and the layer has no norm that could rotate its input")


def _scalars_without_norm(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        if layer.config.has_post_layer_scalar and layer.config.post_mlp_norm_config is None:
            reason = "true; the engine applies it together with post_mlp_norm, which is null"
            yield Breach(f"{layer.place}.has_post_layer_scalar", reason)


def _layer_convs(candidate: Candidate) -> Iterator[tuple[str, int, int]]:
    """Place, group size and channels of each convolution around a mixer or an MLP."""
    for layer in layers(candidate):
        for name in ("mixer_conv_config", "mlp_conv_config"):
            conv = getattr(layer.config, name)
            if conv is not None:
                yield f"{layer.place}.{name}", conv.conv_group_size, layer.width


def _conv_groups(candidate: Candidate) -> Iterator[Breach]:
    for place, group, width in _layer_convs(candidate):
        if group % MULTIPLE or width % MULTIPLE:
            reason = f"groups of {group} in {width} channels; both must be multiples of {MULTIPLE}"
            yield Breach(f"{place}.conv_group_size", reason)


def _conv_history(candidate: Candidate) -> Iterator[Breach]:
    if isinstance(candidate.config, LanguageModelConfig):
        for place, _, _ in _layer_convs(candidate):
            yield Breach(place, "the kernel keeps no taps from one call to the next")


def _mlp_fields(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DenseMLPConfig"):
        if place.endswith(".expert_config"):
            continue  # the experts' kernel has both
        for name in ("gate_clipping", "up_clipping"):
            if value[name] not in (None, (None, None)):
                yield Breach(f"{place}.{name}", "the engine reads it and clips nothing")
        if value["activation"].get("alpha", 1.0) != 1.0:
            yield Breach(f"{place}.activation.alpha", "the engine computes SiLU with alpha 1")


def _mamba_biases(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "Mamba2Config"):
        if value["has_in_biases"]:
            reason = "true; the engine adds no BF16 biases to an F32 projection"
            yield Breach(f"{place}.has_in_biases", reason)


def _weaver_sizes(candidate: Candidate) -> Iterator[Breach]:
    for place, value in of_type(candidate, "DFlashSpeculatorConfig"):
        weaver = value["weaver_config"]
        if weaver is None:
            continue
        if weaver["model_dim"] != weaver["num_heads"] * WEAVER_HEAD:
            reason = f"heads of {weaver['model_dim'] / weaver['num_heads']:g}; they have to be 128"
            yield Breach(f"{place}.weaver_config.num_heads", reason)
        if weaver["candidate_pool_size"] > WEAVER_POOL:
            reason = f"{weaver['candidate_pool_size']}; the engine has up to {WEAVER_POOL}"
            yield Breach(f"{place}.weaver_config.candidate_pool_size", reason)


def _gates_with_biases(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        mixer = layer.config.mixer_config
        if isinstance(mixer, AttentionConfig) and mixer.has_gate and mixer.has_qkvg_biases:
            reason = "true; the gate's own projection has no biases"
            yield Breach(f"{layer.place}.mixer_config.has_qkvg_biases", reason)


BLOCK_RULES = (
    Rule("attention-head-dims", "heads of attention have 64, 128, 256 or 512 channels", _head_dims),
    Rule("no-attention-soft-cap", "attention logits are not capped", _soft_caps, "differs"),
    Rule(
        "static-long-rope",
        "LongRoPE's factors follow from the longest context, not from the length in use",
        _static_long_rope,
        "differs",
    ),
    Rule("qk-norm-biases", "norms of queries and keys have no biases", _qk_norm_biases),
    Rule("qk-norm-means", "norms of queries and keys keep the mean", _qk_norm_means, "differs"),
    Rule("delta-head-dims", "both head dims of DeltaNet are 128", _delta_heads),
    Rule("delta-norm-arrays", "DeltaNet's norm has scales and no biases", _delta_norm_arrays),
    Rule(
        "delta-norm-fields",
        "DeltaNet's norm has no offset and keeps the mean",
        _delta_norm_fields,
        "differs",
    ),
    Rule("mixer-norms", "every layer but the first has a pre_mixer_norm", _missing_norms),
    Rule(
        "rotated-mixer-norms",
        "before a rotated mixer projection stands a norm",
        _rotation_without_norm,
    ),
    Rule("layer-scalar-norms", "a post_layer_scalar follows a norm", _scalars_without_norm),
    Rule("weaver-sizes", "a weaver has heads of 128 and at most 512 candidates", _weaver_sizes),
)
"""What every release so far has in common."""

DELTA_KERNELS_05 = Rule("delta-taps", "DeltaNet's convolution has 2 taps or more", _delta_taps)
DELTA_KERNELS_06 = (
    Rule("delta-taps", "DeltaNet's convolution has 4 taps", _delta_not_four_taps),
    Rule("delta-widths", "DeltaNet's in_proj has a multiple of 8 rows", _delta_widths),
)
LAYER_CONVS = (
    Rule("conv-groups", "layer convolutions have multiples of 4 channels", _conv_groups),
    Rule(
        "conv-history",
        "layer convolutions see the tokens of one call only",
        _conv_history,
        "differs",
    ),
)
PLAIN_MLPS = Rule(
    "plain-mlps", "MLPs are computed without clipping and SiLU's alpha", _mlp_fields, "differs"
)
MAMBA_BIASES = Rule("mamba-biases", "Mamba2's in_projection has no biases", _mamba_biases)
GATE_BIASES = Rule("gate-biases", "gated attention has no biases", _gates_with_biases)
