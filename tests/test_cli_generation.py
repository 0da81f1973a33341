"""`masu run`, `chat` and `bench`: options reach the model, and contradictions are refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden import GOLDEN

from masu.cli.options import generation
from masu.runtime.language_model import load
from masu.runtime.sampling import Sampling, SamplingOptions

PACKAGE = GOLDEN / "qwen3" / "engine"


def masu(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "masu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)


def run(*arguments: object) -> dict[str, Any]:
    done = masu("run", PACKAGE, "Hi", "--backend", "numpy", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_sampling_option_has_a_flag() -> None:
    @generation
    def command() -> None: ...

    flags = {option.name for option in command.__click_params__}  # pyright: ignore
    assert flags == {*SamplingOptions.__annotations__, "max_tokens", "stop"}


def test_run_samples_as_asked() -> None:
    options = "--temperature 0.9 --top-k 7 --top-p 0.95 --min-p 0.01 --repetition-penalty 1.2 " \
        "--presence-penalty 0.3 --frequency-penalty 0.2 --penalty-window 20 --ban-token 19 " \
        "--ban-token 20 --seed 11 --max-tokens 6 --logprobs --system Kindly. " \
        "--reasoning-effort no_reasoning"  # fmt: skip
    found = run(*options.split())
    model = load(PACKAGE, backend="numpy")
    sampling = Sampling(
        temperature=0.9, top_k=7, top_p=0.95, min_p=0.01, repetition_penalty=1.2,
        presence_penalty=0.3, frequency_penalty=0.2, penalty_window=20, banned_tokens=(19, 20),
        seed=11,
    )  # fmt: skip
    chat = model.chat(system="Kindly.", reasoning_effort="no_reasoning")
    reply = chat.send("Hi", sampling=sampling, max_tokens=6, logprobs=True)
    assert found["text"] == reply.text
    assert found["seed"] == 11
    assert found["prompt_tokens"] == reply.usage.prompt_tokens
    assert found["tokens"] == [
        {"id": token.id, "text": token.text, "logprob": token.logprob} for token in reply.tokens
    ]
    assert not {19, 20} & {token.id for token in reply.tokens}


def test_run_continues_a_text_up_to_a_stop_string() -> None:
    options = ("--raw", "--temperature", 0, "--max-tokens", 12)
    whole = run(*options)
    assert "tokens" not in whole
    stop = whole["text"][3:5]
    ended = run(*options, "--stop", "never", "--stop", stop)
    assert ended["text"] == whole["text"][: whole["text"].index(stop)]
    assert ended["finish_reason"] == "stop_string"


def test_chat_takes_the_same_options(tmp_path: Path) -> None:
    options = "--backend numpy --max-tokens 5 --temperature 0 --ban-token 19 --system Kindly."
    done = masu("chat", PACKAGE, *options.split(), stdin="Hi\n\nMore\n")
    assert done.returncode == 0, done.stderr
    model = load(PACKAGE, backend="numpy")
    chat = model.chat(
        system="Kindly.", sampling=model.sampling.override(temperature=0, banned_tokens=(19,))
    )
    assert done.stdout == "".join(
        f"{chat.send(message, max_tokens=5).text}\n" for message in ("Hi", "More")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--raw", "--system", "x"], "--raw has no conversation"),
        (["--logprobs"], "--logprobs needs --json"),
        (["--top-p", "2"], "top_p must be above 0 and at most 1, found 2.0"),
        (["--reasoning-effort", "much"], "this model knows medium, no_reasoning"),
        (["--ban-token", "320"], "banned token 320 is outside the vocabulary of 320"),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: list[str], message: str) -> None:
    done = masu("run", PACKAGE, "Hi", "--backend", "numpy", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_bench_prints_a_json_object_a_line() -> None:
    options = "--backend numpy --dtype float32 --prompt-tokens 5 --new-tokens 2 --rounds 1"
    done = masu("bench", PACKAGE, *options.split())
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"load", "prefill", "decode", "peak"} <= {line["name"] for line in lines}
    assert all(line["dtype"] == "float32" and line["package"] == str(PACKAGE) for line in lines)
    assert masu("bench", PACKAGE, "--backend", "numpy", "--rounds", "0").returncode == 2


@pytest.mark.parametrize(
    ("command", "package"),
    [("run", "qwen3"), ("chat", "qwen3"), ("bench", "qwen3"), ("classify", "modernbert")],
)
def test_threads_reach_the_backend(command: str, package: str) -> None:
    """The numpy backend has none of its own, and says so."""
    text = ["Hi"] if command in ("run", "classify") else []
    options = ["--backend", "numpy", "--threads"]
    done = masu(command, GOLDEN / package / "engine", *text, *options, 2)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'numpy' leaves the number of threads to its library" in done.stderr
    refused = masu(command, GOLDEN / package / "engine", *text, *options, 0)
    assert refused.returncode == 2
    assert "0 is not in the range x>=1" in refused.stderr
