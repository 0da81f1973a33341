"""What no engine has is refused by name: every `type` that a family can write."""

import json
from functools import cache
from typing import Any

import pytest
from golden import GOLDEN

from masu.converter.config import read_config
from masu.converter.families import family_names, load_family
from masu.converter.multimodal import language_config
from masu.specs.blocks.classifier import ClassifierConfig
from masu.specs.engine import EngineProfile
from masu.specs.engines import ENGINES, uzu_0_5, uzu_0_6
from masu.specs.errors import EngineError
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.json_objects import objects
from masu.specs.model import MODEL_CONFIG, LanguageModelConfig
from masu.specs.tensors import Matrix

TYPES = {"uzu-0.5": uzu_0_5.TYPES, "uzu-0.6": uzu_0_6.TYPES}

DECODERS = [
    (name, overrides)
    for name in family_names()
    if load_family(name).tiny
    for overrides in ({}, *load_family(name).variants)
]


def model(name: str, overrides: Any) -> LanguageModelConfig | None:
    """The config of a family's tiny model; None for a classifier."""
    family = load_family(name)
    raw = json.loads(json.dumps({**family.tiny, **overrides}))
    config, _ = read_config(family.config, language_config(family, raw, name), name)
    network = family.decoder(config)
    if isinstance(network, ClassifierConfig):
        return None
    base = MODEL_CONFIG.validate_json((GOLDEN / "llama/engine/config.json").read_bytes())
    assert isinstance(base, LanguageModelConfig)
    return base.model_copy(update={"decoder_config": network})


def tags(config: LanguageModelConfig) -> set[str]:
    found = (value.get("type") for _, value in objects(config.model_dump()))
    return {tag for tag in found if tag is not None}


@cache
def models() -> list[LanguageModelConfig]:
    return [found for case in DECODERS if (found := model(*case)) is not None]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_every_type_that_the_engine_lacks_is_named(engine: EngineProfile) -> None:
    for config in models():
        formats = {
            path: FullPrecisionSpec(type="FullPrecisionSpec", layout=entry.layout)
            for path, entry in config.tensors()
            if isinstance(entry, Matrix)
        }
        lines = engine.refusals(config, formats, "BF16")
        marker = ": the engine has no "
        named = {line.partition(marker)[2] for line in lines if marker in line}
        assert named == tags(config) - TYPES[engine.name]


def is_expressible(config: LanguageModelConfig) -> bool:
    try:
        uzu_0_5.ENGINE.dialect.encode_config(config.model_dump())
    except EngineError:
        return False
    return True


def test_what_a_dialect_can_write_it_can_read() -> None:
    """Also layers and mixers that the engine does not have, for masu's own runtime has them."""
    dialect = uzu_0_5.ENGINE.dialect
    written = [config for config in models() if is_expressible(config)]
    for config in written:
        encoded = dialect.encode_config(config.model_dump())
        decoded = json.dumps(dialect.decode_config(encoded))
        assert MODEL_CONFIG.validate_json(decoded) == config
    assert any("PostNormLayerConfig" in tags(config) for config in written)


def test_there_are_such_types() -> None:
    """Those of dense families; an engine that learns one of them moves it to its own list."""
    written = set().union(*map(tags, models()))
    assert written - uzu_0_6.TYPES >= {
        "PostNormLayerConfig",
        "ParallelLayerConfig",
        "FullWidthNormAttentionConfig",
        "PositionScaledAttentionConfig",
        "UngatedMLPConfig",
        "SquaredReLU",
    }
