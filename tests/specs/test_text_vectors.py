"""Text test vectors: made at the conversion, true of the package, and broken by every change."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import golden_spec
from golden import GOLDEN
from package_copies import edit_config

import masu
from masu.specs.errors import IntegrityError
from masu.specs.manifest import Manifest
from masu.specs.text_vectors import ChatVector, ReplyVector, StopVector, TokenVector

Edit = Callable[[Path], None]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3: stop ids of three origins, a template with tools and a switch for thinking."""
    out = tmp_path_factory.mktemp("vectors") / "package"
    masu.convert(GOLDEN / "qwen3" / "hf", out, spec=golden_spec("qwen3"), verify=False)
    return out


def vectors(package: Path) -> dict[str, Any]:
    manifest = Manifest.from_bytes((package / "manifest.json").read_bytes())
    return {f"{vector.kind} {vector.name}": vector for vector in manifest.text_vectors}


def test_every_kind_of_text_is_recorded(converted: Path) -> None:
    found = vectors(converted)
    sentence, stop = found["tokens sentence"], found["stop 3"]
    assert isinstance(sentence, TokenVector)
    assert sentence.ids
    assert isinstance(stop, StopVector)
    assert "generation_config.json" in stop.origins
    assert stop.token == "<|im_end|>"
    on, off = found["chat reasoning effort medium"], found["chat reasoning effort no_reasoning"]
    assert isinstance(on, ChatVector)
    assert on.prompt is not None
    assert isinstance(off, ChatVector)
    assert off.prompt != on.prompt
    assert {"chat system", "chat several turns", "chat tools"} <= found.keys()
    thought = found["reply thought"]
    assert isinstance(thought, ReplyVector)
    assert thought.reasoning is not None
    assert "Two and two." in thought.reasoning
    assert thought.answer == "The answer is 4."


def test_what_was_recorded_holds(converted: Path) -> None:
    assert not [found for found in masu.check(converted) if found.is_problem]
    masu.load(converted, backend="numpy")


def test_tools_are_rendered_the_same_whatever_the_order_of_keys(tmp_path: Path) -> None:
    """The manifest sorts its keys; a template prints tools as they come."""
    template = (Path(__file__).parents[1] / "chat_templates" / "hermes.jinja").read_text()
    spec = masu.ModelSpec(repo="x", chat_template=template)
    masu.convert(GOLDEN / "llama-tied" / "hf", tmp_path / "package", spec=spec, verify=False)
    tools = vectors(tmp_path / "package")["chat tools"]
    assert isinstance(tools, ChatVector)
    assert tools.prompt is not None
    assert "get_weather" in tools.prompt
    masu.load(tmp_path / "package", backend="numpy")


def in_config(*path: str, change: Callable[[Any], Any]) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        inner = config
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = change(inner[path[-1]])

    return lambda folder: edit_config(folder, apply)


def in_tokenizer(change: Callable[[dict[str, Any]], None]) -> Edit:
    def apply(folder: Path) -> None:
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        change(tokenizer)
        path.write_text(json.dumps(tokenizer))

    return apply


def swap_two_tokens(tokenizer: dict[str, Any]) -> None:
    vocab = tokenizer["model"]["vocab"]
    vocab["a"], vocab["e"] = vocab["e"], vocab["a"]


def forget_a_merge(tokenizer: dict[str, Any]) -> None:
    del tokenizer["model"]["merges"][0]


CODEC = "token_codec_config"
STOPS = "generation_config", "stop_token_ids"
EDITS: dict[str, tuple[Edit, str]] = {
    "a word of the template": (
        in_config(CODEC, "prompt_template", change=lambda t: t.replace("assistant", "helper")),
        "text vector chat 'user'",
    ),
    "another role name": (
        in_config(CODEC, "user_role_name", change=lambda _: "human"),
        "text vector chat 'user'",
    ),
    "a switch that switches nothing": (
        in_config(CODEC, "prompt_template", change=lambda t: t.replace("enable_thinking", "x")),
        "text vector chat 'reasoning effort no_reasoning'",
    ),
    "no parser": (
        in_config(CODEC, "output_parser_regex", change=lambda _: "(?s)(?P<response>.*)"),
        "text vector reply 'thought'",
    ),
    "a stop token less": (in_config(*STOPS, change=lambda ids: ids[:-1]), "text vector stop"),
    "a stop token more": (in_config(*STOPS, change=lambda ids: [*ids, 7]), "text vector stop '7'"),
    "two tokens swapped": (in_tokenizer(swap_two_tokens), "text vector tokens 'sentence'"),
    "a merge less": (in_tokenizer(forget_a_merge), "text vector tokens"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_change_of_text_fails_load_and_check(name: str, converted: Path, tmp_path: Path) -> None:
    edit, expected = EDITS[name]
    folder = Path(shutil.copytree(converted, tmp_path / "package"))
    edit(folder)
    with pytest.raises(IntegrityError, match="makes something else of text") as caught:
        masu.load(folder, backend="numpy")
    assert any(problem.startswith(expected) for problem in caught.value.problems)
    found = [f.message for f in masu.check(folder) if f.kind in ("tokenizer", "template")]
    assert any(message.startswith(expected) for message in found)
