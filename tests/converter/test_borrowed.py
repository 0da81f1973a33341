"""Text files that a model's entry takes from elsewhere: one commit each, recorded, never lost."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import copy_golden
from golden import GOLDEN
from hub_server import HubServer, Request
from tiny_checkpoints import single

from masu.converter.checkpoint import SYSTEM_PROMPT, Checkpoint
from masu.converter.convert import ConversionPlan, plan_conversion
from masu.converter.provenance import manifest_source
from masu.converter.sources.borrowed import BORROWABLE, OWN, parse_files
from masu.converter.sources.folder import open_folder
from masu.converter.sources.resolve import open_source, resolve
from masu.specs.errors import SourceError, SourceNotFound, TextError
from masu.specs.model import LanguageModelConfig
from masu.specs.models import ModelSpec

REPO, OTHER = "org/model", "org/tokenizers"
TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
TEXTS = {TOKENIZER: b'{"version": "other"}', SETTINGS: b'{"other": 1}', "README.md": b"#"}

Open = Callable[..., Checkpoint]


@pytest.fixture
def open_(hub: HubServer, tmp_path: Path) -> Open:
    """`open_source` on the stand-in, with a cache of the test's own."""

    def open_there(files: dict[str, str], source: str = REPO, **options: Any) -> Checkpoint:
        place = {"cache_dir": tmp_path / "cache", "endpoint": hub.endpoint}
        return open_source(resolve(source), files=files, **place, **options)

    return open_there


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_of_another_repository_replaces_the_checkpoints(hub: HubServer, open_: Open) -> None:
    own = hub.add(REPO, single())
    other = hub.add(OTHER, TEXTS)
    checkpoint = open_({TOKENIZER: OTHER})
    origin = f"{OTHER}@{other}: {TOKENIZER}"
    assert checkpoint.texts == {TOKENIZER: TEXTS[TOKENIZER], SETTINGS: single()[SETTINGS]}
    assert checkpoint.text_origins == {TOKENIZER: origin}
    assert checkpoint.inert_files == {f"{OWN}: {TOKENIZER}": f"superseded by {origin}"}
    source = manifest_source(checkpoint)
    assert (source.name, source.revision) == (REPO, own)
    assert source.files[origin] == sha256(TEXTS[TOKENIZER])
    assert source.files[SETTINGS] == sha256(single()[SETTINGS])


def test_without_files_nothing_differs(hub: HubServer, open_: Open, tmp_path: Path) -> None:
    hub.add(REPO, single())
    checkpoint = open_({})
    assert checkpoint.texts == {name: single()[name] for name in (TOKENIZER, SETTINGS)}
    assert checkpoint.text_origins == {}
    assert set(manifest_source(checkpoint).files) == {"config.json", TOKENIZER, SETTINGS}


def test_a_revision_and_another_name_can_be_given(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, single())
    old = hub.add(OTHER, {"fast/t.json": b'{"old": 1}'})
    hub.repositories[OTHER].refs["v1"] = old
    hub.repositories[OTHER].commit({"fast/t.json": b'{"new": 1}'})
    assert open_({TOKENIZER: f"{OTHER}:fast/t.json"}).texts[TOKENIZER] == b'{"new": 1}'
    checkpoint = open_({TOKENIZER: f"{OTHER}@v1:fast/t.json"})
    assert checkpoint.texts[TOKENIZER] == b'{"old": 1}'
    assert checkpoint.text_origins[TOKENIZER] == f"{OTHER}@{old}: fast/t.json"


def test_a_branch_that_moves_meanwhile_mixes_nothing(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, single())
    old = hub.add(OTHER, TEXTS)

    def move(request: Request) -> None:
        if request.path.endswith(f"{OTHER}/resolve/{old}/{TOKENIZER}"):
            hub.repositories[OTHER].commit(dict.fromkeys(TEXTS, b'{"moved": 1}'))

    hub.on_request = move
    checkpoint = open_({TOKENIZER: OTHER, SETTINGS: OTHER})
    assert hub.repositories[OTHER].refs["main"] != old
    assert checkpoint.texts == {name: TEXTS[name] for name in (TOKENIZER, SETTINGS)}


def test_the_checkpoints_own_repository_is_meant_at_its_own_commit(
    hub: HubServer, open_: Open
) -> None:
    old = hub.add(REPO, {**single(), SYSTEM_PROMPT: b"old"})
    hub.repositories[REPO].refs["v1"] = old
    hub.repositories[REPO].commit({**single(), SYSTEM_PROMPT: b"new"})
    assert SYSTEM_PROMPT in open_({}).inert_files
    checkpoint = open_({SYSTEM_PROMPT: REPO}, f"{REPO}@v1")
    assert checkpoint.texts[SYSTEM_PROMPT] == b"old"
    assert checkpoint.inert_files == {}
    assert manifest_source(checkpoint).files[f"{REPO}@{old}: {SYSTEM_PROMPT}"] == sha256(b"old")
    assert open_({SYSTEM_PROMPT: f"{REPO}@main"}, f"{REPO}@v1").texts[SYSTEM_PROMPT] == b"new"


def test_an_own_file_of_another_name_is_used_so_it_is_not_inert(
    hub: HubServer, open_: Open
) -> None:
    hub.add(REPO, {**single(), "chat.jinja": b"theirs"})
    assert "chat.jinja" in open_({}).inert_files
    checkpoint = open_({"chat_template.jinja": f"{REPO}:chat.jinja"})
    assert checkpoint.texts["chat_template.jinja"] == b"theirs"
    assert checkpoint.inert_files == {}


def test_offline_the_cache_gives_the_same(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, single())
    hub.add(OTHER, TEXTS)
    online = open_({TOKENIZER: OTHER})
    hub.requests.clear()
    offline = open_({TOKENIZER: OTHER}, offline=True)
    assert hub.requests == []
    for part in ("texts", "text_origins", "identity", "inert_files"):
        assert getattr(offline, part) == getattr(online, part)
    with pytest.raises(SourceNotFound, match=re.escape(f"{SETTINGS} of {OTHER}@main")) as caught:
        open_({SETTINGS: OTHER}, offline=True)
    assert "without --offline" in str(caught.value)


def test_a_folder_borrows_as_well(hub: HubServer, open_: Open, tmp_path: Path) -> None:
    hub.add(OTHER, TEXTS)
    folder = copy_golden("llama", tmp_path / "hf")
    checkpoint = open_({TOKENIZER: OTHER}, str(folder))
    assert checkpoint.texts[TOKENIZER] == TEXTS[TOKENIZER]
    assert f"{OWN}: {TOKENIZER}" in checkpoint.inert_files
    assert manifest_source(checkpoint).kind == "folder"


# --- refusals


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("org/modle", "has no repository org/modle"),
        (f"{OTHER}@v9", "no revision 'v9'"),
        (f"{OTHER}:fast/t.json", "no such file"),
        (f"{OTHER}:large.json", "at most"),
    ],
)
def test_what_cannot_be_had_is_named_before_any_weight(
    hub: HubServer, open_: Open, place: str, says: str
) -> None:
    hub.add(REPO, single())
    hub.add(OTHER, {**TEXTS, "large.json": b" " * (4 * 2**20 + 1)})
    with pytest.raises(SourceError, match=re.escape(says)) as caught:
        open_({TOKENIZER: place})
    repo, _, path = place.partition(":")
    revision = "" if "@" in repo else "@main"
    assert f"{path or TOKENIZER} of {repo}{revision}: " in caught.value.message
    assert set(hub.fetched()) == {"config.json"}
    assert open_({TOKENIZER: OTHER}).texts[TOKENIZER] == TEXTS[TOKENIZER]


def test_malformed_entries_are_refused_all_at_once() -> None:
    files = {TOKENIZER: "tokenizers", SETTINGS: f"{OTHER}:", "config.json": OTHER}
    with pytest.raises(SourceError, match="files") as caught:
        parse_files(files)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "config.json",
        TOKENIZER,
        SETTINGS,
    ]
    assert set(parse_files(dict.fromkeys(BORROWABLE, OTHER))) == set(BORROWABLE)


# --- what they become


def planned(checkpoint: Checkpoint, **overrides: Any) -> ConversionPlan:
    return plan_conversion(checkpoint, ModelSpec(repo=REPO, **overrides), dtype="BF16")


def codec(plan: ConversionPlan) -> Any:
    assert isinstance(plan.config, LanguageModelConfig)
    return plan.config.token_codec_config


@pytest.fixture
def golden(tmp_path: Path) -> str:
    """A checkpoint with a template of its own."""
    folder = copy_golden("llama", tmp_path / "hf")
    (folder / "chat_template.jinja").write_text("own")
    return str(folder)


def test_a_borrowed_template_wins_and_a_system_prompt_is_the_default(
    hub: HubServer, open_: Open, golden: str
) -> None:
    template = json.dumps({"chat_template": "borrowed"}).encode()
    commit = hub.add(OTHER, {"chat_template.json": template, SYSTEM_PROMPT: "Höflich.\n".encode()})
    plan = planned(open_({"chat_template.json": OTHER, SYSTEM_PROMPT: OTHER}, golden))
    assert codec(plan).prompt_template == "borrowed"
    assert codec(plan).default_system_prompt == "Höflich.\n"
    entries = plan.ledger.files
    for name in ("chat_template.json", SYSTEM_PROMPT):
        assert entries[name].status == "used"
        assert entries[name].reason == f"from {OTHER}@{commit}: {name}"
    assert entries["chat_template.jinja"].reason == "superseded by chat_template.json"
    own = planned(open_folder(Path(golden)))
    assert (codec(own).prompt_template, codec(own).default_system_prompt) == ("own", None)


def test_the_entrys_own_template_comes_before_all_files(
    hub: HubServer, open_: Open, golden: str
) -> None:
    hub.add(OTHER, {"chat_template.jinja": b"borrowed"})
    borrowed = open_({"chat_template.jinja": OTHER}, golden)
    assert codec(planned(borrowed)).prompt_template == "borrowed"
    assert codec(planned(borrowed, chat_template="entry")).prompt_template == "entry"


def test_two_system_prompts_contradict(hub: HubServer, open_: Open, golden: str) -> None:
    hub.add(OTHER, {SYSTEM_PROMPT: b"one"})
    checkpoint = open_({SYSTEM_PROMPT: OTHER}, golden)
    with pytest.raises(TextError, match="two system prompts"):
        planned(checkpoint, default_system_prompt="two")
    assert codec(planned(checkpoint)).default_system_prompt == "one"


@pytest.mark.parametrize("name", [TOKENIZER, SETTINGS, SYSTEM_PROMPT, "chat_template.jinja"])
def test_a_malformed_file_is_named_by_its_repository(
    hub: HubServer, open_: Open, golden: str, name: str
) -> None:
    commit = hub.add(OTHER, {name: b"\xff"})
    with pytest.raises(TextError, match=re.escape(f"{OTHER}@{commit}: {name}")):
        planned(open_({name: OTHER}, golden))


def test_a_tokenizer_of_elsewhere_is_the_packages(hub: HubServer, open_: Open, golden: str) -> None:
    fetched = (GOLDEN / "llama-odd-vocab" / "hf" / TOKENIZER).read_bytes()
    hub.add(OTHER, {TOKENIZER: fetched})
    (Path(golden) / TOKENIZER).unlink()
    plan = planned(open_({TOKENIZER: OTHER}, golden))
    assert json.loads(plan.tokenizer)["model"] == json.loads(fetched)["model"]
