"""ModernBERT as a classifier of texts: a bidirectional encoder, pooled, and a prediction head."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from masu.converter.assemble import attention, dense_mlp, embedding, layer, rms_norm
from masu.converter.config import NOT_INFERENCE, Epsilon, HFConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL, SLIDING, windows
from masu.converter.table import TOKEN_TABLE, Table, Target, second_half_first
from masu.specs.blocks.activation import GELU
from masu.specs.blocks.classifier import ClassifierConfig, PredictionHeadConfig
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.transformer import TransformerConfig
from masu.specs.errors import ConfigError

EXACT_GELU = GELU(type="GELU", approximate=False)
MASKED_HEAD = "belongs to the head that fills in masked words"
TOKENIZERS = "the tokenizer carries it"


class Config(HFConfig):
    """The bases of the two rotations stand in `rope_parameters`, or in the older `*_rope_theta`."""

    INERT: ClassVar = {
        "classifier_dropout": NOT_INFERENCE,
        "cls_token_id": TOKENIZERS,
        "decoder_bias": MASKED_HEAD,
        "deterministic_flash_attn": "how transformers runs",
        "embedding_dropout": NOT_INFERENCE,
        "gradient_checkpointing": NOT_INFERENCE,
        "initializer_cutoff_factor": NOT_INFERENCE,
        "label2id": "id2label decides",
        "layer_norm_eps": "norm_eps decides",
        "mlp_dropout": NOT_INFERENCE,
        "position_embedding_type": "this family always rotates",
        "reference_compile": "how transformers runs",
        "repad_logits_with_grad": NOT_INFERENCE,
        "sep_token_id": TOKENIZERS,
        "sparse_pred_ignore_index": MASKED_HEAD,
        "sparse_prediction": MASKED_HEAD,
        "tie_word_embeddings": "a classifier has no readout to the vocabulary",
    }

    vocab_size: int = 50368
    hidden_size: int = 768
    intermediate_size: int = 1152
    num_hidden_layers: int = 22
    num_attention_heads: int = 12
    hidden_activation: Literal["gelu"] = "gelu"
    max_position_embeddings: int = 8192
    norm_eps: Epsilon = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    layer_types: tuple[str, ...] | None = None
    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    rope_parameters: dict[str, dict[str, Any]] | None = None
    global_rope_theta: float = 160000.0
    local_rope_theta: float = 10000.0
    classifier_pooling: Literal["cls", "mean"] = "cls"
    classifier_bias: bool = False
    classifier_activation: Literal["gelu"] = "gelu"
    id2label: Mapping[str, str] | None = None
    num_labels: int | None = None
    problem_type: Literal["single_label_classification", "multi_label_classification"] | None = None
    """How it was trained. The engine gives every label a probability of its own in any case."""


def build(config: Config) -> ClassifierConfig:
    norm = _norm(config)
    output_labels = labels(config)
    return ClassifierConfig(
        embedding_config=embedding(tied=True),
        embedding_norm_config=norm,
        transformer_config=TransformerConfig(
            layer_configs=_layers(config),
            output_norm_config=norm,
            model_dim=config.hidden_size,
            hidden_dim=config.intermediate_size,
        ),
        prediction_head_config=PredictionHeadConfig(
            dense_config=LinearConfig(),
            activation=EXACT_GELU,
            normalization_config=norm.model_copy(update={"scale_offset": 0.0}),
            readout_config=LinearConfig(),
            use_dense_bias=config.classifier_bias,
        ),
        vocab_size=config.vocab_size,
        model_dim=config.hidden_size,
        hidden_dim=config.hidden_size,
        num_labels=len(output_labels),
        classifier_pooling=config.classifier_pooling,
        output_labels=output_labels,
    )


def _norm(config: Config) -> NormalizationConfig:
    """A layer norm, with biases only where the config asks for them."""
    layer_norm = {"subtract_mean": True, "has_biases": config.norm_bias}
    return rms_norm(config.norm_eps).model_copy(update=layer_norm)


def _layers(config: Config) -> tuple[TransformerLayerConfig, ...]:
    """The norm of the embeddings serves as the first layer's first norm."""
    every = config.global_attn_every_n_layers
    slides = [index % every != 0 for index in range(config.num_hidden_layers)]
    spans = windows(config.layer_types, slides, config.local_attention)
    first, *others = (_layer(config, span) for span in spans)
    return first.model_copy(update={"pre_mixer_norm_config": None}), *others


def _layer(config: Config, span: int | None) -> TransformerLayerConfig:
    """The engine's window counts both sides: a token sees half of it in either direction."""
    head_dim = config.hidden_size // config.num_attention_heads
    ropes = config.rope_parameters or {}
    kind, theta = (
        (FULL, config.global_rope_theta) if span is None else (SLIDING, config.local_rope_theta)
    )
    return layer(
        norm=_norm(config),
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_attention_heads,
            head_dim=head_dim,
            window=span,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ).model_copy(update={"is_causal": False}),
        mlp=dense_mlp(EXACT_GELU, biases=config.mlp_bias),
        rope=read_rope(
            ropes.get(kind),
            head_dim=head_dim,
            max_positions=config.max_position_embeddings,
            default_theta=theta,
        ),
    )


def labels(config: Config) -> tuple[str, ...]:
    """Names in the order of the readout's rows; as in transformers, two if none are given.

    Raises:
        ConfigError: ids that are not 0, 1, 2 ..., a name twice, or another number of labels.
    """
    if config.id2label is None:
        return tuple(f"LABEL_{index}" for index in range(config.num_labels or 2))
    found = tuple(config.id2label.get(str(index)) for index in range(len(config.id2label)))
    names = tuple(name for name in found if name is not None)
    problems = []
    if len(names) < len(found):
        problems.append(f"id2label: expected ids 0 to {len(found) - 1}, found {[*config.id2label]}")
    if len(set(names)) < len(names):
        problems.append(f"id2label: expected every name once, found {[*names]}")
    if config.num_labels not in (None, len(found)):
        problems.append(
            f"num_labels: expected {len(found)} as in id2label, found {config.num_labels}"
        )
    if problems:
        raise ConfigError("config.json: the labels are not clear:", problems=problems)
    return names


LAYER = llama.LAYER
UP = f"{LAYER}.mlp.up_projection"

# fmt: off
WEIGHTS: Table = {
    "model.embeddings.tok_embeddings.weight":  TOKEN_TABLE,
    "model.embeddings.norm.weight":            "embedding_norm.scales",
    "model.embeddings.norm.bias":              "embedding_norm.biases",
    "model.layers.{i}.attn_norm.weight":       f"{LAYER}.pre_mixer_norm.scales",
    "model.layers.{i}.attn_norm.bias":         f"{LAYER}.pre_mixer_norm.biases",
    "model.layers.{i}.attn.Wqkv.weight":       f"{LAYER}.mixer.qkvg_projection.weights",
    "model.layers.{i}.attn.Wqkv.bias":         f"{LAYER}.mixer.qkvg_projection.biases",
    "model.layers.{i}.attn.Wo.weight":         f"{LAYER}.mixer.out_projection.weights",
    "model.layers.{i}.attn.Wo.bias":           f"{LAYER}.mixer.out_projection.biases",
    "model.layers.{i}.mlp_norm.weight":        f"{LAYER}.pre_mlp_norm.scales",
    "model.layers.{i}.mlp_norm.bias":          f"{LAYER}.pre_mlp_norm.biases",
    "model.layers.{i}.mlp.Wi.weight":          Target(f"{UP}.weights", rows=second_half_first),
    "model.layers.{i}.mlp.Wi.bias":            Target(f"{UP}.biases", rows=second_half_first),
    "model.layers.{i}.mlp.Wo.weight":          f"{LAYER}.mlp.down_projection.weights",
    "model.layers.{i}.mlp.Wo.bias":            f"{LAYER}.mlp.down_projection.biases",
    "model.final_norm.weight":                 "transformer.output_norm.scales",
    "model.final_norm.bias":                   "transformer.output_norm.biases",
    "head.dense.weight":                       "prediction_head.dense.weights",
    "head.dense.bias":                         "prediction_head.dense.biases",
    "head.norm.weight":                        "prediction_head.norm.scales",
    "head.norm.bias":                          "prediction_head.norm.biases",
    "classifier.weight":                       "prediction_head.readout.weights",
    "classifier.bias":                         "prediction_head.readout.biases",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: True,
    tiny={
        "model_type": "modernbert",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "norm_eps": 1e-5,
        "norm_bias": True,
        "attention_bias": True,
        "mlp_bias": True,
        "classifier_bias": True,
        "classifier_pooling": "mean",
        "layer_types": [SLIDING, FULL, SLIDING, FULL],
        "local_attention": 16,
        "rope_parameters": {
            FULL: {"rope_type": "default", "rope_theta": 160000.0},
            SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
        },
        "id2label": {"0": "safe", "1": "violence", "2": "health"},
    },
    variants=(
        {"classifier_pooling": "cls"},
        {"norm_bias": False, "attention_bias": False, "mlp_bias": False, "classifier_bias": False},
    ),
)
