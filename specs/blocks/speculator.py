"""A draft model for speculative decoding: DFlash, with or without a Weaver."""

from typing import Annotated, Literal

from pydantic import Field

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.strict import U32, U64, Count, Strict
from masu.specs.tensors import Entries, linear, under


class DFlashDraftConfig(Strict):
    model_dim: Count
    hidden_dim: Count
    block_size: Count
    mask_token_id: U64
    target_layer_ids: tuple[U32, ...]
    num_target_layers: Count
    vocab_size: Count
    context_projection_config: LinearConfig
    context_norm_config: NormalizationConfig
    rope_config: RoPEConfig
    layer_configs: tuple[TransformerLayerConfig, ...]
    output_norm_config: NormalizationConfig

    @property
    def state_kv_dim(self) -> int:
        """Rows of the joint K and V projection of all layers, K before V in each."""
        mixers = (layer.mixer_config for layer in self.layer_configs)
        return sum(2 * mixer.key_dim for mixer in mixers if isinstance(mixer, AttentionConfig))

    def tensors(self) -> Entries:
        width = self.model_dim
        yield from linear("context_projection", width, len(self.target_layer_ids) * width)
        yield from under("context_norm", self.context_norm_config.tensors(width))
        yield from linear("state_kv_projection", self.state_kv_dim, width)
        for index, layer in enumerate(self.layer_configs):
            yield from under(f"layers.{index}", layer.tensors(width, self.hidden_dim))
        yield from under("output_norm", self.output_norm_config.tensors(width))


class WeaverConfig(Strict):
    """A small causal model that ranks the draft's candidates."""

    model_dim: Count
    target_model_dim: Count
    target_embedding_dim: Count
    num_layers: Annotated[int, Field(gt=0, le=1024)]
    """Bounded, for each one is a row of the tensor table."""
    num_heads: Count
    hidden_dim: Count
    max_depth: Count
    candidate_pool_size: Count
    linear_config: LinearConfig
    norm_config: NormalizationConfig
    rope_config: RoPEConfig

    def tensors(self) -> Entries:
        width, norm = self.model_dim, self.norm_config
        yield from under("embedding_norm", norm.tensors(self.target_embedding_dim))
        yield from linear("embedding_projection", width, self.target_embedding_dim, biases=True)
        yield from under("hidden_state_norm", norm.tensors(self.target_model_dim))
        yield from linear("hidden_state_projection", width, self.target_model_dim, biases=True)
        for index in range(self.num_layers):
            yield from under(f"blocks.{index}", self._block())
        yield from under("output_norm", norm.tensors(width))
        yield from linear("query_projection", self.target_model_dim, width)

    def _block(self) -> Entries:
        width = self.model_dim
        yield from under("pre_attention_norm", self.norm_config.tensors(width))
        yield from linear("qkv_projection", 3 * width, width)
        yield from linear("out_projection", width, width)
        yield from under("pre_mlp_norm", self.norm_config.tensors(width))
        yield from linear("mlp.up_projection", 2 * self.hidden_dim, width, biases=True)
        yield from linear("mlp.down_projection", width, self.hidden_dim, biases=True)


class DFlashSpeculatorConfig(Strict):
    type: Literal["DFlashSpeculatorConfig"]
    draft_config: DFlashDraftConfig
    weaver_config: WeaverConfig | None

    def tensors(self) -> Entries:
        yield from under("draft_model", self.draft_config.tensors())
        if self.weaver_config is not None:
            yield from under("weaver", self.weaver_config.tensors())
