"""SmolLM3: Llama in which some layers do not rotate their queries and keys (NoPE)."""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import windows
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.errors import ConfigError


class Config(SiluConfig):
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    no_rope_layers: tuple[int, ...] | None = None
    no_rope_layer_interval: int = 4
    use_sliding_window: bool = False
    sliding_window: int | None = None
    layer_types: tuple[str, ...] | None = None


def rotates(config: Config) -> list[bool]:
    """Which layers have rope: the list says 1 for yes, whatever its name suggests."""
    count, interval = config.num_hidden_layers, config.no_rope_layer_interval
    if config.no_rope_layers is None:
        return [(index + 1) % interval != 0 for index in range(count)]
    if len(config.no_rope_layers) != count:
        raise ConfigError(
            f"config.json: no_rope_layers: expected {count} entries, one per layer, "
            f"found {len(config.no_rope_layers)}"
        )
    return [bool(flag) for flag in config.no_rope_layers]


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
        default_theta=2000000.0,
    )
    rotated = rotates(config)
    slides = [config.use_sliding_window and not flag for flag in rotated]
    layers = [
        layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.even_head_dim,
                window=window,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
            ),
            mlp=dense_mlp(biases=config.mlp_bias),
            rope=rope if flag else None,
        )
        for flag, window in zip(
            rotated, windows(config.layer_types, slides, config.sliding_window), strict=True
        )
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "smollm3",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": True,
        "no_rope_layers": [1, 0, 1, 0],
        "use_sliding_window": True,
        "sliding_window": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000000.0},
    },
    variants=({"attention_bias": False, "mlp_bias": False, "use_sliding_window": False},),
)
