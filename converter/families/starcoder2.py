"""StarCoder 2: norms that subtract the mean, an MLP without a gate, biases everywhere."""

from typing import ClassVar, Literal

from masu.converter.assemble import attention, dense_decoder, layer, layer_norm, ungated_mlp
from masu.converter.config import NOT_INFERENCE, Epsilon, StackConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.activation import GELU
from masu.specs.blocks.decoder import DecoderConfig


class Config(StackConfig):
    """`mlp_type` and `norm_type` are keys of the first release; transformers does not read them."""

    INERT: ClassVar = {"embedding_dropout": NOT_INFERENCE, "residual_dropout": NOT_INFERENCE}

    num_key_value_heads: int | None = 2
    hidden_act: Literal["gelu_pytorch_tanh", "gelu"] = "gelu_pytorch_tanh"
    norm_epsilon: Epsilon = 1e-5
    use_bias: bool = True
    sliding_window: int | None = None
    tie_word_embeddings: bool = True

    mlp_type: Literal["default"] = "default"
    norm_type: Literal["layer_norm"] = "layer_norm"


def build(config: Config) -> DecoderConfig:
    norm = layer_norm(config.norm_epsilon)
    is_tanh = config.hidden_act == "gelu_pytorch_tanh"
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.even_head_dim,
            window=config.sliding_window,
            qkv_biases=config.use_bias,
            out_biases=config.use_bias,
        ),
        mlp=ungated_mlp(GELU(type="GELU", approximate=is_tanh), biases=config.use_bias),
        rope=read_rope(
            config.rope_parameters,
            head_dim=config.even_head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


# fmt: off
WEIGHTS: Table = {
    **{key: target for key, target in llama.WEIGHTS.items() if ".mlp." not in key},
    "model.layers.{i}.input_layernorm.bias":          f"{llama.LAYER}.pre_mixer_norm.biases",
    "model.layers.{i}.post_attention_layernorm.bias": f"{llama.LAYER}.pre_mlp_norm.biases",
    "model.layers.{i}.mlp.c_fc.weight":               f"{llama.LAYER}.mlp.up_projection.weights",
    "model.layers.{i}.mlp.c_fc.bias":                 f"{llama.LAYER}.mlp.up_projection.biases",
    "model.layers.{i}.mlp.c_proj.weight":             f"{llama.LAYER}.mlp.down_projection.weights",
    "model.layers.{i}.mlp.c_proj.bias":               f"{llama.LAYER}.mlp.down_projection.biases",
    "model.norm.bias":                                "transformer.output_norm.biases",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "starcoder2",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
        "use_bias": True,
        "sliding_window": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
    },
    variants=(
        {
            "hidden_act": "gelu",
            "use_bias": False,
            "sliding_window": None,
            "tie_word_embeddings": False,
        },
    ),
)
