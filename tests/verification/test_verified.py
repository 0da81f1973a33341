"""The verdict `verified`: honest conversions pass, and faults planted in the converter do not.

The converter's own reference shares these faults, so that only an independent model can see them.
"""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import copy_golden, edit_json, edit_tensors
from golden import GOLDEN
from package_copies import add_manifest
from package_faults import CONFIG, PLAIN, QUANTISED

import masu
import masu.converter.convert
from masu.converter.families import load_family
from masu.planning import plan
from masu.specs.errors import VerdictError
from masu.verification.judge import compare
from masu.verification.prompts import Prompts, prompts_for
from masu.verification.walk import BOUND, BlockErrors

HONEST = [
    "gemma2", "gemma4-text", "gpt_oss-bf16", "llama-tied", "mixtral", "modernbert", "nemotron_h",
    "phi3", "qwen3_next",
]  # fmt: skip
"""Windows, caps, shared caches, sinks, ties, experts, labels, single mixers, two rope lists,
recurrent states."""

LAYER = "decoder.transformer.layers.0"


def compared(source: Path, dtype: str = "bfloat16") -> tuple[Prompts, BlockErrors]:
    """A planned conversion against transformers; nothing is written or compiled."""
    planned = plan(source, dtype=dtype)
    return compare(planned.conversion, planned.checkpoint)


@pytest.mark.parametrize("case", HONEST)
def test_an_honest_plan_is_what_transformers_computes(case: str) -> None:
    _, found = compared(GOLDEN / case / "hf")
    assert found.diverging is None
    assert found.worst < BOUND / 3


def test_an_honest_conversion_is_verified(tmp_path: Path) -> None:
    """Its values are rounded, which is no fault and is told."""
    finished = masu.convert(GOLDEN / "llama-tied" / "hf", tmp_path / "package", dtype="float16")
    assert finished.verdict is not None
    assert (finished.verdict.level, finished.verdict.reason) == ("verified", None)
    assert finished.verdict.error < finished.verdict.bound / 3
    assert 0 < finished.verdict.rounding < finished.verdict.bound
    assert masu.verify(tmp_path / "package").passed


@pytest.mark.parametrize(("case", "length"), [("gemma2", 48), ("llama", 72)])
def test_it_reaches_past_windows_and_original_contexts(case: str, length: int) -> None:
    """Golden Gemma 2 has windows of 16, golden Llama an original context of 64."""
    planned = plan(GOLDEN / case / "hf").conversion
    prompts = prompts_for(planned.config, planned.tokenizer)
    assert max(map(len, prompts.sequences)) == length
    assert prompts.unreached == ()


def test_what_is_too_long_to_reach_is_told(tmp_path: Path) -> None:
    source = copy_golden("gemma2", tmp_path / "source")
    wide = {"sliding_window": 4096, "max_position_embeddings": 8192}
    edit_json(source / "config.json", lambda config: {**config, **wide})
    planned = plan(source).conversion
    prompts = prompts_for(planned.config, planned.tokenizer)
    assert prompts.unreached == ("the sliding window of 4096",)


def family_with(**changes: Callable[[Any, Any], Any]) -> Callable[[str], Any]:
    """`load_family`, whose families have parts that `changes` made of theirs and the config."""

    def load(name: str) -> Any:
        real = load_family(name)

        def changed(part: str) -> Callable[[Any], Any]:
            return lambda config: changes[part](getattr(real, part)(config), config)

        return dataclasses.replace(real, **{part: changed(part) for part in changes})

    return load


def rows_swapped(table: Any, config: Any) -> Any:
    return {source.replace("{q,k,v}", "{q,v,k}"): target for source, target in table.items()}


def gate_before_up(table: Any, config: Any) -> Any:
    return {source.replace("{up,gate}", "{gate,up}"): to for source, to in table.items()}


def in_layers(network: Any, change: Callable[[Any], Any]) -> Any:
    stack = network.transformer_config
    made = stack.model_copy(update={"layer_configs": tuple(map(change, stack.layer_configs))})
    return network.model_copy(update={"transformer_config": made})


def offset_dropped(network: Any, config: Any) -> Any:
    def change(layer: Any) -> Any:
        norm = layer.pre_mixer_norm_config.model_copy(update={"scale_offset": None})
        return layer.model_copy(update={"pre_mixer_norm_config": norm})

    return in_layers(network, change)


def cap_ignored(network: Any, config: Any) -> Any:
    def change(layer: Any) -> Any:
        mixer = layer.mixer_config.model_copy(update={"logit_soft_cap": None})
        return layer.model_copy(update={"mixer_config": mixer})

    return in_layers(network, change)


def rope_scaling_ignored(network: Any, config: Any) -> Any:
    def change(layer: Any) -> Any:
        rope = layer.rope_config.model_copy(update={"scaling_factor": 1.0})
        return layer.model_copy(update={"rope_config": rope})

    return in_layers(network, change)


def window_one_short(network: Any, config: Any) -> Any:
    def change(layer: Any) -> Any:
        window = layer.mixer_config.sliding_window_size
        new = None if window is None else window - 1
        mixer = layer.mixer_config.model_copy(update={"sliding_window_size": new})
        return layer.model_copy(update={"mixer_config": mixer})

    return in_layers(network, change)


def read_out_uncapped(network: Any, config: Any) -> Any:
    tables = network.embedding_config.model_copy(update={"logit_soft_cap": None})
    return network.model_copy(update={"embedding_config": tables})


PLANTED: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "keys and values swapped": ("llama", family_with(weights=rows_swapped), LAYER),
    "gate and up swapped": ("llama", family_with(weights=gate_before_up), LAYER),
    "rope scaling ignored": ("llama", family_with(decoder=rope_scaling_ignored), LAYER),
    "norm offset dropped": ("gemma2", family_with(decoder=offset_dropped), LAYER),
    "attention soft cap ignored": ("gemma2", family_with(decoder=cap_ignored), LAYER),
    "window one short": ("gemma2", family_with(decoder=window_one_short), LAYER),
    "readout's soft cap ignored": ("gemma2", family_with(decoder=read_out_uncapped), "logits"),
    "keys and values of codes swapped": ("llama-awq", family_with(weights=rows_swapped), LAYER),
    "gate and up of codes swapped": (
        "llama-mlx-4bit-g64",
        family_with(weights=gate_before_up),
        LAYER,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_of_the_converter_is_found_in_its_block(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, family, block = PLANTED[name]
    monkeypatch.setattr(masu.converter.convert, "load_family", family)
    _, found = compared(GOLDEN / case / "hf")
    assert found.diverging is not None
    assert found.diverging.block == block
    assert found.diverging.error > 10 * BOUND
    if block == LAYER:
        assert f"{LAYER}.mixer.qkvg_projection.weights" in found.diverging.tensors


def test_a_conversion_that_is_not_verified_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masu.converter.convert, "load_family", family_with(weights=rows_swapped))
    with pytest.raises(VerdictError, match=f"{LAYER} diverges by"):
        masu.convert(GOLDEN / "llama-tied" / "hf", tmp_path / "package")
    assert not list(tmp_path.iterdir())


NAMED = {**PLAIN, **{name: fault for name, (case, fault) in CONFIG.items() if case == "llama"}}


@pytest.mark.parametrize("name", NAMED)
def test_against_the_source_a_fault_is_found_in_its_block(
    name: str, honest: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(honest, tmp_path / "package"))
    NAMED[name].apply(folder)
    add_manifest(folder)
    verdict = masu.verify(folder, GOLDEN / "llama" / "hf")
    assert not verdict.passed
    assert verdict.diverging is not None
    assert verdict.diverging.block == NAMED[name].block


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("honest") / "package"
    masu.convert(GOLDEN / "llama" / "hf", out, verify=False)
    return out


def test_codes_are_recomputed(tmp_path: Path) -> None:
    """Noise below the rounding error of the codes; the untouched package is verified."""
    folder, source = tmp_path / "package", GOLDEN / "llama" / "hf"
    masu.convert(source, folder, recipe="int4", verify=False)
    assert masu.verify(folder, source).level == "verified"
    QUANTISED["one code by one"].apply(folder)
    verdict = masu.verify(folder, source)
    assert not verdict.passed
    assert verdict.diverging is not None
    assert verdict.diverging.block == "decoder.transformer.layers.1"
    assert verdict.diverging.error < 0.02


def test_a_package_quantised_from_a_package_is_known_by_its_source(tmp_path: Path) -> None:
    """A float32 source: what `masu quantize` reads was rounded to bfloat16 before."""
    plain, folder = tmp_path / "plain", tmp_path / "quantised"
    source = random_source(tmp_path / "source")
    masu.convert(source, plain, verify=False)
    masu.quantize(plain, folder, "int8")
    assert masu.verify(folder).level == "unchanged"
    assert masu.verify(folder, source).passed
    QUANTISED["one code by one"].apply(folder)
    assert not masu.verify(folder, source).passed
    assert not masu.verify(folder).passed


def random_source(target: Path) -> Path:
    """Golden `llama`, with values that bfloat16 does not hold."""
    import numpy as np

    def change(tensors: dict[str, np.ndarray]) -> None:
        random = np.random.default_rng(0)
        for name, values in tensors.items():
            noise = random.standard_normal(values.shape).astype(np.float32)
            tensors[name] = values.astype(np.float32) * (1 + np.float32(1e-3) * noise)

    source = copy_golden("llama", target)
    edit_tensors(source / "model.safetensors", change)
    return source
