"""OLMo 1 (arXiv:2402.00838): Llama with layer norms that have neither scale nor bias."""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer
from masu.converter.config import SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.norm import NormalizationConfig

# The reference implementation computes this norm in float32, with this epsilon built in.
NORM = NormalizationConfig(
    epsilon=1e-5,
    scale_offset=None,
    upcast_mode="full_layer",
    subtract_mean=True,
    has_scale=False,
    has_biases=False,
)


class Config(SiluConfig):
    """The shared keys of a decoder, and those of this family. Any other key is refused."""

    rms_norm_eps: float = 1e-5
    attention_bias: bool = False
    clip_qkv: None = None


def build(config: Config) -> DecoderConfig:
    block = layer(
        norm=NORM,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.even_head_dim,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ),
        mlp=dense_mlp(),
        rope=read_rope(
            config.rope_parameters,
            head_dim=config.even_head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=NORM)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "olmo",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
)
