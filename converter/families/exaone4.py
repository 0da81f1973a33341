"""EXAONE 4: post-norm layers, query and key norms, and no rotation where there is no window.

In a model with windows the layers that see everything do not rotate (NoPE); in one without
windows all layers do.
"""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, post_norm_layer, rms_norm
from masu.converter.config import Epsilon, SiluConfig, Size
from masu.converter.families import olmo2
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import windows
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.errors import ConfigError


class Config(SiluConfig):
    num_key_value_heads: int | None = 32
    head_dim: Size | None = None
    rms_norm_eps: Epsilon = 1e-5
    sliding_window: int | None = 4096
    sliding_window_pattern: str | int | None = 4
    layer_types: tuple[str, ...] | None = None


def slides(config: Config) -> list[bool]:
    """Which layers have a window where no `layer_types` say so: all but every n-th."""
    count, pattern = config.num_hidden_layers, config.sliding_window_pattern
    if config.sliding_window is None or config.layer_types is not None:
        return [False] * count
    if not isinstance(pattern, int) or pattern < 1:
        raise ConfigError(
            "config.json: sliding_window_pattern: expected a positive number, or layer_types "
            f"beside it, found {pattern!r}"
        )
    return [(index + 1) % pattern != 0 for index in range(count)]


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    head_dim = config.head_dim or config.even_head_dim
    rope = read_rope(
        config.rope_parameters, head_dim=head_dim, max_positions=config.max_position_embeddings
    )
    has_windows = config.sliding_window is not None
    layers = [
        post_norm_layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=head_dim,
                query_key_norm=norm,
                window=window,
            ),
            mlp=dense_mlp(),
            rope=None if has_windows and window is None else rope,
        )
        for window in windows(config.layer_types, slides(config), config.sliding_window)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: olmo2.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "exaone4",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1000000.0,
            "factor": 16.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    variants=(
        {
            "sliding_window": None,
            "sliding_window_pattern": None,
            "layer_types": ["full_attention"] * 4,
            "tie_word_embeddings": False,
        },
        {
            "sliding_window_pattern": "LLG",
            "layer_types": ["sliding_attention", "sliding_attention"] + ["full_attention"] * 2,
        },
    ),
)
