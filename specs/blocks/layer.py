"""The engine's layer: a token mixer and an MLP, with the norms around them."""

from masu.specs.blocks.conv import TransformerLayerConvConfig
from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.ple import PLELayerConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.strict import U32, Count, Strict
from masu.specs.tensors import Entries, Vector, under


class TransformerLayerConfig(Strict):
    """`hidden_dim` null means the transformer's; `rope_config` null means no rotation."""

    pre_mixer_norm_config: NormalizationConfig | None
    mixer_conv_config: TransformerLayerConvConfig | None
    mixer_config: TokenMixerConfig
    post_mixer_norm_config: NormalizationConfig | None
    pre_mlp_norm_config: NormalizationConfig
    mlp_conv_config: TransformerLayerConvConfig | None
    mlp_config: MLPConfig
    post_mlp_norm_config: NormalizationConfig | None
    hidden_dim: Count | None
    ple_config: PLELayerConfig | None
    has_post_layer_scalar: bool
    kv_source_layer_index: U32 | None
    rope_config: RoPEConfig | None

    def tensors(self, width: int, hidden: int) -> Entries:
        for name in ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"):
            norm: NormalizationConfig | None = getattr(self, f"{name}_config")
            if norm is not None:
                yield from under(name, norm.tensors(width))
        if self.mixer_conv_config is not None:
            yield from under("mixer_conv", self.mixer_conv_config.tensors(width))
        yield from under("mixer", self.mixer_config.tensors(width))
        if self.mlp_conv_config is not None:
            yield from under("mlp_conv", self.mlp_conv_config.tensors(width))
        yield from under("mlp", self.mlp_config.tensors(width, self.hidden_dim or hidden))
        if self.ple_config is not None:
            yield from under("ple", self.ple_config.tensors(width))
        if self.has_post_layer_scalar:
            yield "post_layer_scalar", Vector((1,))
