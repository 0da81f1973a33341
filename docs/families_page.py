"""Prints docs/families.md, what masu converts, from the code: `python docs/families_page.py`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from masu.converter.config import read_config
from masu.converter.families import family_names, load_family
from masu.converter.family import Family
from masu.converter.multimodal import language_config
from masu.converter.sources.gguf_architectures import ARCHITECTURES
from masu.runtime.blocks.layers import LAYERS
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.mixer import parts
from masu.specs.blocks.transformer import LayerConfig
from masu.specs.codec import RawTextCodecConfig
from masu.specs.engine import EngineProfile
from masu.specs.engines import ENGINES
from masu.specs.errors import ConfigError
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.generation import NO_GENERATION_DEFAULTS
from masu.specs.json_objects import objects
from masu.specs.model import (
    ClassifierModelConfig,
    LanguageModelConfig,
    NetworkConfig,
    TextModelConfig,
)
from masu.specs.tensors import Matrix

PARITY = Path(__file__).parent / "parity.json"
"""Written by `tests/parity/figures.py`."""

GOLDEN = Path(__file__).parent.parent / "tests/golden"

INTRODUCTION = """\
# Model families

Made from the code by `docs/families_page.py`. A family is a file of `converter/families`, named
after the `model_type` of a checkpoint's config.json. All of them run in masu's own runtime.

- **blocks**: what the tiny configs of the generated tests are made of; every optional feature is
  on in them.
- **rotary**: the position embeddings in these configs; a family may accept more of those that
  `converter/rope.py` knows.
- **readout**: whether the token table serves as the output head: by the config's flag, or always.
- **engines**: what a release refuses in the tiny config, in bfloat16. Real models with fewer
  options on may load; `masu convert --engine` says.
- **parity**: the largest difference of a logit from transformers' own, both in float32, over all
  tiny configs and positions, in standard deviations of the logits (`tests/parity/figures.py`).
  Where transformers has no such model, golden data are the judge."""

QUANTISED = """\
## Quantised sources

Any family may come quantised; [quantised.md](quantised.md) lists the methods and what becomes of
each.

- GGUF files of the architectures {architectures}: decoded to the package's type; `--recipe keep`
  keeps the codes of Q4_0, Q4_1 and Q8_0.
- `gpt_oss` with MXFP4 experts: the blocks are kept as they are."""

LIMITS = """\
## What is refused, and why

| what | why |
|---|---|
| attention in both directions in Gemma (`use_bidirectional_attention`) | a decoder's cache cannot look ahead |
| text-to-speech (Fish Audio s1-mini) | neither the package format's engines nor masu's runtime have its blocks; `masu convert` ends with exit status 2 |
| Llamba with `bias` in its mixers | no released checkpoint has it, and neither transformers nor golden data could judge a conversion: biases of the gate would stand twice, in the projection and beside it |
| MLX's Llamba (Llamba-1B-4bit-mlx) | its mixers and MLPs are alternate layers under names of their own, and its config.json lies in another repository |
| MLX's Falcon-H1 | mlx-lm folds its multipliers into the weights before it quantises them |
| vision and audio towers | packages are text only: the ledger names every tensor that is left out |"""  # noqa: E501


def page() -> Iterator[str]:
    """The parts of the page, to be joined by empty lines."""
    yield INTRODUCTION
    parity = json.loads(PARITY.read_text())
    rows = [_row(name, parity) for name in family_names()]
    yield _table(["family", "blocks", "rotary", "readout", *ENGINES, "parity"], rows)
    architectures = _joined(f"`{name}`" for name in ARCHITECTURES)
    yield QUANTISED.format(architectures=architectures)
    yield LIMITS


def _row(name: str, parity: Mapping[str, float]) -> list[str]:
    family = load_family(name)
    inner = _wrapped(name, family)
    if inner is not None:
        return [
            f"`{name}`",
            f"text of `{inner}`, towers left out",
            "",
            "",
            *[""] * len(ENGINES),
            "",
        ]
    example = family.tiny or _golden_config(name)
    networks = [_network(family, {**example, **more}) for more in ({}, *family.variants)]
    engines = [_engine_cell(engine, networks[0]) for engine in ENGINES.values()]
    rotary = _joined(ROTARY[name] for name in _types(networks) if name in ROTARY)
    figure = f"{parity[name]:.0e}" if name in parity else "golden data"
    return [f"`{name}`", _blocks(networks), rotary, _readout(family, example), *engines, figure]


def _wrapped(name: str, family: Family[Any]) -> str | None:
    """The family of the text model, if this is only the model with its towers."""
    if family.tiny or family.text_config is None:
        return None
    others = (each for each in family_names() if each != name and load_family(each).tiny)
    return next(each for each in others if load_family(each).config is family.config)


def _golden_config(name: str) -> dict[str, Any]:
    """The config of a golden checkpoint, for a family that transformers does not have."""
    configs = (json.loads(path.read_text()) for path in sorted(GOLDEN.glob("*/hf/config.json")))
    return next(config for config in configs if config["model_type"] == name)


def _network(family: Family[Any], raw: Mapping[str, Any]) -> NetworkConfig:
    config, _ = read_config(family.config, language_config(family, raw, "tiny"), "tiny")
    return family.decoder(config)


def _blocks(networks: list[NetworkConfig]) -> str:
    kinds = {kind.__name__ for each in (LAYERS, MIXERS, MLPS) for kind in each}
    plain = {"TransformerLayerConfig", "DenseMLPConfig"}
    names = [name for name in _types(networks) if name in kinds - plain]
    routings = [name for name in _types(networks) if name.endswith("Routing")]
    found = [name.removesuffix("Config") for name in names] + routings
    return "; ".join(filter(None, (_joined(found), _joined(_features(networks)))))


ROTARY = {
    "UnscaledRoPEConfig": "plain",
    "LinearScalingRoPEConfig": "linear",
    "LlamaRoPEConfig": "llama3",
    "YARNRoPEConfig": "yarn",
    "LongRoPEConfig": "longrope",
}

FEATURES = {
    "sliding_window_size": "windows",
    "query_norm_config": "q/k norms",
    "logit_soft_cap": "soft caps",
    "has_sinks": "sinks",
    "has_gate": "gated attention",
    "is_kv_sharing": "shared caches",
    "normalize_values": "normed values",
    "has_qkvg_biases": "attention biases",
    "has_up_biases": "MLP biases",
    "ple_config": "per-layer embeddings",
    "post_mlp_norm_config": "post norms",
    "embedding_norm_config": "embedding norm",
    "input_scale": "scaled embedding",
}
"""Fields that are null or false where a model has no such thing."""


def _features(networks: list[NetworkConfig]) -> Iterator[str]:
    found = [value for each in networks for _, value in objects(each.model_dump())]
    for field, words in FEATURES.items():
        if any(value.get(field) for value in found):
            yield words
    layers = [layer for each in networks for layer in each.transformer_config.layer_configs]
    if any(getattr(layer, "rope_config", None) is None and _attends(layer) for layer in layers):
        yield "layers without rotation"
    if any(value.get("is_causal") is False for value in found):
        yield "both directions"


def _attends(layer: LayerConfig) -> bool:
    return any(isinstance(part, AttentionConfig) for part in parts(layer.mixer_config))


def _types(networks: list[NetworkConfig]) -> list[str]:
    found = (value.get("type") for each in networks for _, value in objects(each.model_dump()))
    return list(dict.fromkeys(name for name in found if name is not None))


def _readout(family: Family[Any], example: Mapping[str, Any]) -> str:
    if not isinstance(_network(family, example), DecoderConfig):
        return "labels"
    ties = {_tied(family, example, flag) for flag in (True, False)} - {None}
    return "tied or own" if len(ties) > 1 else "always tied" if True in ties else "always its own"


def _tied(family: Family[Any], example: Mapping[str, Any], flag: bool) -> bool | None:
    """What the family makes of its flag; None if it refuses this value."""
    (field,) = (name for name in family.config.model_fields if name.startswith("tie_"))
    spellings = {field, *(old for old, new in family.config.RENAMED.items() if new == field)}
    given = language_config(family, example, "tiny")
    raw = {**{key: given[key] for key in given if key not in spellings}, field: flag}
    try:
        config, _ = read_config(family.config, raw, "tiny")
    except ConfigError:
        return None
    return family.tied(config)


def _engine_cell(engine: EngineProfile, network: NetworkConfig) -> str:
    model = _model(network)
    formats = {
        name: FullPrecisionSpec(type="FullPrecisionSpec", layout=entry.layout)
        for name, entry in model.tensors()
        if isinstance(entry, Matrix)
    }
    refusals = engine.refusals(model, formats, "BF16")
    reasons = dict.fromkeys(line.partition(": ")[2] for line in refusals)
    return _joined(reason.replace("the engine has no", "no") for reason in reasons) or "loads"


def _model(network: NetworkConfig) -> TextModelConfig:
    codec = RawTextCodecConfig(type="RawTextCodecConfig")
    if isinstance(network, DecoderConfig):
        return LanguageModelConfig(
            type="LanguageModelConfig",
            token_codec_config=codec,
            decoder_config=network,
            generation_config=NO_GENERATION_DEFAULTS,
        )
    return ClassifierModelConfig(
        type="ClassifierModelConfig", token_codec_config=codec, classifier_config=network
    )


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print("\n\n".join(page()))
