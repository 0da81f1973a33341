"""uzu 0.6 (facts of 0.6.13), which loads what lalamo 0.17.0 writes."""

from collections.abc import Iterator

from masu.specs.dialect import Dialect
from masu.specs.engine import Candidate, EngineProfile, Refusal
from masu.specs.engine_rules import (
    code_bits,
    group_sizes,
    hybrid_blocks,
    hybrid_cores,
    hybrid_sides,
    known_formats,
    known_types,
    mean_pooling_only,
    no_hybrid_adapters,
    no_mixture_of_experts,
    parameters_in,
)
from masu.specs.formats.d4s4 import D4S4Spec

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


def d4s4_tables_only(candidate: Candidate) -> Iterator[Refusal]:
    """D4S4 is decoded by the lookup kernel: a tied table would have to be a readout as well."""
    for path, format_ in candidate.formats.items():
        if not isinstance(format_, D4S4Spec):
            continue
        if not path.endswith((".embedding.input_embedding", ".token_embedding")):
            yield Refusal(path, "D4S4 serves untied input tables and per-layer embeddings only")


ENGINE = EngineProfile(
    name="uzu-0.6",
    dialect=Dialect(),
    rules=(
        known_types(TYPES),
        no_mixture_of_experts,
        mean_pooling_only,
        parameters_in("BF16"),
        known_formats(FORMATS),
        code_bits((4, 8)),
        group_sizes((32, 64)),
        hybrid_blocks((32,)),
        hybrid_sides,
        hybrid_cores,
        no_hybrid_adapters,
        d4s4_tables_only,
    ),
)
