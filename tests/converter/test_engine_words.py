"""What a family needs and the engine has no word for, every engine refuses by name.

The engine's words are those that lalamo wrote into the golden packages.
"""

import re

import pytest
from golden import ENGINE_CASES, GOLDEN

from masu.converter.config import read_config
from masu.converter.families import family_names, load_family
from masu.converter.multimodal import language_config
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.engines import ENGINES
from masu.specs.model import LanguageModelConfig
from masu.specs.package import Package


def tags(text: str) -> set[str]:
    return set(re.findall(r'"type": ?"(\w+)"', text))


WORDS = {
    tag
    for case in ENGINE_CASES
    for tag in tags((GOLDEN / case / "engine" / "config.json").read_text(encoding="utf-8"))
}


def configs() -> dict[str, LanguageModelConfig]:
    """Every tiny config that needs a word of masu's own."""
    frame = Package.open(GOLDEN / "llama" / "engine").config
    found: dict[str, LanguageModelConfig] = {}
    for name in family_names():
        family = load_family(name)
        for index, variant in enumerate(({}, *family.variants) if family.tiny else ()):
            raw = language_config(family, {**family.tiny, **variant}, name)
            network = family.decoder(read_config(family.config, raw, name)[0])
            if isinstance(network, DecoderConfig) and tags(network.model_dump_json()) - WORDS:
                model = frame.model_copy(update={"decoder_config": network})
                assert isinstance(model, LanguageModelConfig)
                found[f"{name}-{index}"] = model
    return found


CONFIGS = configs()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_word_of_masu_s_own_is_refused_by_name(name: str, engine: str) -> None:
    refusals = "\n".join(ENGINES[engine].refusals(CONFIGS[name], {}, "BF16"))
    for tag in tags(CONFIGS[name].model_dump_json()) - WORDS:
        assert f"the engine has no {tag}" in refusals


def test_there_are_such_words() -> None:
    found = {tag for config in CONFIGS.values() for tag in tags(config.model_dump_json()) - WORDS}
    assert found >= {
        "BiasedReadoutConfig",
        "BiasedShortConvConfig",
        "DenseAndMixtureConfig",
        "FullWidthNormAttentionConfig",
        "LatentMixtureConfig",
        "ScaledSoftmaxRouting",
        "SharedExpertConfig",
        "SigmoidRouting",
        "SoftmaxShareRouting",
        "SparseMixerRouting",
    }
