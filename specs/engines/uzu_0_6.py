"""uzu 0.6 (facts of 0.6.13), which loads what lalamo 0.17.0 writes."""

from masu.specs.dialect import Dialect
from masu.specs.engine import EngineProfile
from masu.specs.engine_block_rules import BLOCK_RULES, DELTA_KERNELS_06, LAYER_CONVS
from masu.specs.engine_expert_rules import NO_MIXTURES
from masu.specs.engine_format_rules import (
    D4S4_TABLES,
    NO_ADAPTERS,
    ROTATION_RULES,
    code_bits,
    group_sizes,
    hadamard_blocks,
    known_formats,
)
from masu.specs.engine_rules import (
    DRAFTABLE_CONVS,
    MODEL_RULES,
    SAMPLING_RANGES,
    SHAPES,
    known_types,
)

TYPES = frozenset(
    {
        "LanguageModelConfig", "ClassifierModelConfig", "SpeculatorModelConfig",
        "ChatCodecConfig", "RawTextCodecConfig", "DFlashSpeculatorConfig",
        "TiedEmbeddingConfig", "UntiedEmbeddingConfig",
        "AttentionConfig", "DeltaNetConfig", "ShortConvConfig",
        "DenseMLPConfig", "MixtureOfExpertsConfig", "SoftmaxRouting",
        "SiLU", "GELU", "Identity",
        "UnscaledRoPEConfig", "LinearScalingRoPEConfig", "LlamaRoPEConfig", "YARNRoPEConfig",
        "LongRoPEConfig",
    }
)  # fmt: skip

FORMATS = frozenset({"FullPrecisionSpec", "IntSpec", "MLXSpec", "HybridSpec", "D4S4Spec"})

GROUP_SIZES = (32, 64)

ENGINE = EngineProfile(
    largest_group=max(GROUP_SIZES),
    name="uzu-0.6",
    dialect=Dialect(),
    rules=(
        known_types(TYPES),
        *MODEL_RULES,
        SAMPLING_RANGES,
        SHAPES,
        DRAFTABLE_CONVS,
        *BLOCK_RULES,
        *DELTA_KERNELS_06,
        *LAYER_CONVS,
        NO_MIXTURES,
        known_formats(FORMATS),
        code_bits((4, 8)),
        group_sizes(GROUP_SIZES),
        hadamard_blocks((32,)),
        *ROTATION_RULES,
        NO_ADAPTERS,
        D4S4_TABLES,
    ),
    unknown=(
        "whether banned_tokens, presence_penalty and frequency_penalty have to be null, as in 0.5",
        "when activations are rounded to 8 bits, and when the cache of keys and values is",
        "whether drafts are read out rightly from a tied table that is rotated (0.5: they are not)",
        "how many rows of a readout a weaver may gather",
        "by what name of the device shapes.json is read, before its default",
    ),
)
