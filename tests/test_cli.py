"""The command line as a program sees it: streams, exit status, JSON, and what it imports."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from golden import GOLDEN
from rich.console import Console
from rich.progress import Progress

from masu.cli.app import COMMANDS, Commands
from masu.cli.failure import exit_code, report
from masu.cli.progress import Bars, shown_progress
from masu.events import Event
from masu.specs.errors import EngineError, MasuError, SourceNotFound, VerdictError

ROOT = GOLDEN.parent.parent
CHECKPOINT = GOLDEN / "llama-tied/hf"
PACKAGE = GOLDEN / "llama-tied/engine"
HEAVY = ["jax", "torch", "transformers", "tokenizers", "huggingface_hub", "gguf", "scipy", "rich"]


def masu(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "masu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # pyright: ignore


@pytest.fixture(autouse=True, scope="module")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled programs of these runs stay out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose weights file lost its last bytes."""
    folder = tmp_path_factory.mktemp("broken") / "package"
    shutil.copytree(PACKAGE, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-2])
    return folder


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list-models"], ["run", "-h"]])
def test_starts_without_heavy_libraries(arguments: list[str]) -> None:
    script = f"""
import sys
from masu.cli import main
try:
    main({arguments!r})
except SystemExit as stop:
    assert not stop.code
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == "[]\n"


def test_help_names_every_command_and_imports_only_those_asked_for() -> None:
    group = Commands("masu")
    assert all(group.get_command(None, name) is not None for name in COMMANDS)  # pyright: ignore
    assert group.get_command(None, "failure") is None  # pyright: ignore


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["check"], ["check", "x", "--nonsense"], ["convert", "x", "--dtype", "int3"]],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    done = masu(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: " in done.stderr


def test_an_error_is_one_message_with_its_hint_after_a_blank_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    done = masu("check", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    message, empty, hint = done.stderr.splitlines()
    assert message.startswith(f"error: {tmp_path} is a Hugging Face checkpoint")
    assert empty == ""
    assert hint.startswith("hint: masu convert ")


def test_check_says_yes() -> None:
    done = masu("check", PACKAGE, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sound"] is True


def test_check_says_no_to_a_broken_package(broken: Path) -> None:
    done = masu("check", broken, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["sound"] is False
    assert {finding["kind"] for finding in found["findings"]} >= {"container"}
    assert masu("check", broken).stdout.endswith(f"{broken}: not sound (1 found)\n")


def test_check_says_no_for_an_engine_that_refuses(tmp_path: Path) -> None:
    """float32 parameters are sound, but uzu computes in bfloat16."""
    written = masu("convert", CHECKPOINT, "-o", tmp_path / "p", "--dtype", "float32", "--no-verify")
    assert written.returncode == 0, written.stderr
    assert "uzu-0.6 will not load this package" in written.stderr
    assert masu("check", tmp_path / "p").returncode == 0
    judged = masu("check", tmp_path / "p", "--engine", "uzu-0.6")
    assert judged.returncode == 1
    assert re.search(r"^engine +uzu-0\.6  ", judged.stdout, re.M)
    assert masu("check", tmp_path / "p", "--engine", "uzu-9").returncode == 2


def test_convert_prints_the_folder_and_nothing_else(tmp_path: Path) -> None:
    done = masu("convert", CHECKPOINT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / done.stdout.removesuffix("\n") / "model.safetensors").is_file()
    assert "verdict, verified" in done.stderr
    again = masu("convert", CHECKPOINT, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "hint: --overwrite" in again.stderr


def test_convert_as_json(tmp_path: Path) -> None:
    done = masu("convert", CHECKPOINT, "-o", tmp_path / "p", "--json")
    document = json.loads(done.stdout)
    assert document["path"] == str(tmp_path / "p")
    assert document["verdict"]["passed"] is True
    assert document["bytes"] == (tmp_path / "p/model.safetensors").stat().st_size


def test_plan_writes_nothing_and_knows_the_size(tmp_path: Path) -> None:
    done = masu("convert", CHECKPOINT, "--plan", "--json", cwd=tmp_path)
    assert not list(tmp_path.iterdir())
    planned = json.loads(done.stdout)
    masu("convert", CHECKPOINT, "-o", tmp_path / "p", "--no-verify")
    assert planned["bytes"] == (tmp_path / "p/model.safetensors").stat().st_size
    assert planned["ledger"]["tensors"]


def test_run_streams_the_answer_to_stdout() -> None:
    options = ["--max-tokens", 6, "--seed", 3, "--backend", "numpy"]
    told = masu("run", PACKAGE, "hello", *options)
    assert told.returncode == 0, told.stderr
    assert "the reply was cut off" in told.stderr
    document = json.loads(masu("run", PACKAGE, "hello", *options, "--json").stdout)
    assert document["text"] + "\n" == told.stdout
    assert document["reply_tokens"] == 6
    assert document["seed"] == 3


def test_run_raw_adds_no_template() -> None:
    options = ["--max-tokens", 2, "--temperature", 0, "--backend", "numpy", "--json"]
    chat, raw = (masu("run", PACKAGE, "hello", *options, *more) for more in ([], ["--raw"]))
    counts = [json.loads(done.stdout)["prompt_tokens"] for done in (chat, raw)]
    assert counts[1] < counts[0]


def test_chat_answers_every_line_that_says_something() -> None:
    options = ["--max-tokens", 3, "--temperature", 0, "--backend", "numpy"]
    done = masu("chat", PACKAGE, *options, input="one\n\ntwo\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cut off") == 2


def test_info_of_a_package_and_of_its_source_agree() -> None:
    package, source = (
        json.loads(masu("info", path, "--json").stdout) for path in (PACKAGE, CHECKPOINT)
    )
    assert (package.pop("kind"), source.pop("kind")) == ("package", "source")
    assert package == source
    assert package["memory_floor"] == package["weight_bytes"] + package["state_bytes"]


def test_info_ledger_names_every_source_tensor() -> None:
    done = masu("info", CHECKPOINT, "--ledger")
    assert "tensor  model.embed_tokens.weight" in done.stdout
    assert "no ledger" in masu("info", PACKAGE, "--ledger").stderr


def test_list_models_filters() -> None:
    everything, some, none = (
        json.loads(masu("list-models", *query, "--json").stdout)
        for query in ([], ["smollm2-360m"], ["no such model"])
    )
    assert [model["name"] for model in some] == ["SmolLM2-360M-Instruct"]
    assert len(everything) > len(some)
    assert none == []


def test_a_model_that_is_known_but_not_convertible() -> None:
    [entry] = json.loads(masu("list-models", "s1-mini", "--json").stdout)
    done = masu("convert", "s1-mini", "--plan")
    assert (done.returncode, done.stdout) == (2, "")
    assert entry["unsupported"] in done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("smollm2-1.7", ["SmolLM2-1.7B-Instruct"]),
        ("HuggingFaceTB/SmolLM2-1.7", ["HuggingFaceTB/SmolLM2-1.7B-Instruct"]),
        ("Nanbeige", ["Nanbeige4.1-3B"]),
        ("Nanbeige/", ["Nanbeige/Nanbeige4.1-3B"]),
        ("./Qwen3", []),
        ("pypi:", []),
    ],
)
@pytest.mark.parametrize("command", ["convert", "info"])
def test_the_shell_offers_named_models_and_paths(
    command: str, typed: str, offered: list[str]
) -> None:
    words = {"COMP_WORDS": f"masu {command} {typed}", "COMP_CWORD": "2"}
    environment = {**os.environ, **words, "_MASU_COMPLETE": "bash_complete"}
    script = ["-c", "from masu.cli import main; main(prog_name='masu')"]
    done = subprocess.run(
        [sys.executable, *script], env=environment, capture_output=True, text=True, check=True
    )
    first, *names = done.stdout.splitlines()
    assert first == f"file,{typed}"
    assert names == [f"plain,{name}" for name in offered]


def test_schema_prints_the_committed_snapshot() -> None:
    assert masu("schema").stdout == (ROOT / "specs/package.schema.json").read_text()


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m masu schema | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_options_that_a_plan_would_not_read_are_refused() -> None:
    done = masu("convert", "anything", "--plan", "--report", "page.html", "--calibration", "t.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--calibration and --report has no use" in done.stderr


# A shell makes its background jobs deaf to interrupts, and these tests may run in one.
HEARING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from masu.cli import main
main()
"""


def test_interrupted_is_130() -> None:
    command = [sys.executable, "-c", HEARING, "chat", str(PACKAGE)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write("hello\n")
        chat.stdin.flush()
        chat.stdout.read(1)  # it answers, so it is past its start
        chat.send_signal(signal.SIGINT)
        _, stderr = chat.communicate()
    assert chat.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (VerdictError("no"), 1),
        (SourceNotFound("nothing"), 2),
        (EngineError("no"), 2),
        (MasuError("no"), 2),
        (OSError(28, "No space left on device", "x"), 2),
        (ValueError("a defect"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_status_of_errors(error: BaseException, status: int) -> None:
    assert exit_code(error) == status


def test_problems_and_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    report(MasuError("two things", problems=["a: 1", "b: 2"], hint="mend them"))
    report(OSError(28, "No space left on device", "model.safetensors"))
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "error: two things\n  a: 1\n  b: 2\n\nhint: mend them\n"
        "error: No space left on device: model.safetensors\n"
    )


def test_a_defect_shows_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    report(ValueError("a defect"))
    told = capsys.readouterr().err
    assert "ValueError: a defect" in told
    assert "error: this is a defect in masu" in told


def test_progress_without_a_terminal_is_a_line_per_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with shown_progress() as on_event:
        for done in range(3):
            on_event(Event("write", done, 2, "model.safetensors"))
        on_event(Event("verify", 0, 0, ""))
    assert capsys.readouterr() == ("", "write: model.safetensors\nverify\n")


def test_bars_end_when_the_next_stage_begins() -> None:
    with Progress(console=Console(file=StringIO())) as progress:
        bars = Bars(progress)
        bars(Event("fetch", 0, 0, "[a name in brackets]"))
        bars(Event("write", 5, 10, ""))
        fetched, written = progress.tasks
        assert (fetched.finished, written.finished, written.percentage) == (True, False, 50)
        bars.finish()
        assert written.finished
