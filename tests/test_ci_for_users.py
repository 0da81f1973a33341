"""The workflow and action of `examples/ci`: their steps run, in order, in a folder of their own."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml
from checkpoints import copy_golden, edit_json

from masu.cli.app import main

ROOT = Path(__file__).parent.parent
CI = ROOT / "examples/ci"
ELSEWHERE = {
    "actions/cache/restore@v4", "actions/cache/save@v4", "actions/checkout@v4",
    "actions/setup-python@v5", "actions/upload-artifact@v4",
}  # fmt: skip
"""Actions that the test does not run: they move files in and out of the machine."""

ACTION = "./.github/actions/masu"


def document(name: str) -> dict[str, Any]:
    return yaml.safe_load((CI / name).read_text())


def workflow() -> dict[str, Any]:
    return document("workflow.yml")


@dataclass
class Job:
    """A run of the workflow's one job, as the runner does it: a step that fails ends it.

    Attributes:
        only: names of the `run:` steps to run; None for all.
        ran: names of those that did, in order; the last one failed if `failed`.
    """

    folder: Path
    environment: Mapping[str, str]
    only: Collection[str] | None = None
    ran: list[str] = field(default_factory=list)
    failed: bool = False
    messages: str = ""

    def run(self) -> "Job":
        steps = workflow()["jobs"]["package"]["steps"]
        self._steps(steps, {"env": {**workflow()["env"], **self.environment}})
        return self

    def _steps(self, steps: list[dict[str, Any]], context: dict[str, Any]) -> dict[str, Any]:
        done: dict[str, Any] = {}
        for step in steps:
            if self.failed:
                break
            here = {**context, "steps": done}
            if step.get("uses") == ACTION:
                outputs = self._action(step["with"], here)
            elif "uses" in step:
                assert step["uses"] in ELSEWHERE
                continue
            elif self.only is not None and step["name"] not in self.only:
                continue
            else:
                outputs = self._shell(step, here)
            done[step.get("id", "")] = {"outputs": outputs}
        return done

    def _action(self, given: dict[str, str], context: dict[str, Any]) -> dict[str, str]:
        action = document("action.yml")
        inputs = {name: entry.get("default") for name, entry in action["inputs"].items()}
        assert given.keys() <= inputs.keys()
        inputs |= {name: filled(value, context) for name, value in given.items()}
        done = self._steps(action["runs"]["steps"], {"inputs": inputs})
        if self.failed:
            return {}
        outputs = action["outputs"].items()
        return {name: filled(entry["value"], {"steps": done}) for name, entry in outputs}

    def _shell(self, step: dict[str, Any], context: dict[str, Any]) -> dict[str, str]:
        self.ran.append(step["name"])
        files = {name: self.folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        files["GITHUB_OUTPUT"].write_text("")
        variables = {**context.get("env", {}), **step.get("env", {})}
        assert "${{" not in step["run"], "an expression in a script is an injection"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "XDG_CACHE_HOME": str(self.folder / "cache"),
                **{name: filled(str(value), context) for name, value in variables.items()},
                **{name: str(path) for name, path in files.items()},
            },
            capture_output=True,
            text=True,
            check=False,
        )
        self.messages += done.stdout + done.stderr
        self.failed = done.returncode != 0
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


def filled(text: str, context: Mapping[str, Any]) -> str:
    """The text with its `${{ a.b.c }}` replaced; an expression of another form is an error."""

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for name in match[1].split("."):
            found = found[name]
        return str(found)

    return re.sub(r"\$\{\{ ([\w.]+) \}\}", value, text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A checkpoint that uzu accepts, and a `pip` that writes down what it is asked to install."""
    checkpoint = copy_golden("llama-tied", tmp_path / "checkpoint")
    edit_json(
        checkpoint / "config.json",
        lambda config: config.update(head_dim=64, num_attention_heads=2, num_key_value_heads=1),
    )
    (tmp_path / "bin").mkdir()
    pip = tmp_path / "bin/pip"
    pip.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/installed"\n')
    pip.chmod(0o755)
    return tmp_path


def job(repository: Path, only: Collection[str] | None = None, **environment: str) -> Job:
    return Job(repository, {"SOURCE": "checkpoint", **environment}, only).run()


STEPS = ["Install", "Convert", "Check", "Verify", "Diff"]
KEPT = "Put the new package in the place of the last one"


@pytest.mark.slow
def test_the_steps_run_and_tell_what_changed(repository: Path) -> None:
    first = job(repository)
    assert first.ran == [*STEPS, KEPT], first.messages
    assert not first.failed, first.messages
    assert "changed: unknown" in first.messages
    assert (repository / "installed").read_text() == "install masu[verify]\n"
    for name in ("check", "verify"):
        suite = ElementTree.parse(repository / f"build/reports/{name}.xml").getroot()
        assert list(suite.iter("testcase"))
        assert not list(suite.iter("failure"))

    same = job(repository, only=("Diff", KEPT))
    assert "changed: false" in same.messages, same.messages

    quantised = job(repository, RECIPE="mlx-8bit")
    assert not quantised.failed, quantised.messages
    assert "changed: true" in quantised.messages
    summary = (repository / "GITHUB_STEP_SUMMARY").read_text()
    assert "MLX" in summary


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_converted_ends_the_job(repository: Path) -> None:
    (repository / "checkpoint/tokenizer.json").unlink()
    failed = job(repository)
    assert (failed.ran, failed.failed) == (STEPS[:2], True)


def commands(script: str) -> Iterator[list[str]]:
    """The words of every `masu` command of a script."""
    for line in script.splitlines():
        for part in re.split(r"\|\||&&|>", line):
            plain = re.sub(r'\$\{\w+:\+(.*?"\$\w+")\}', r"\1", part)
            words = shlex.split(plain)
            if words[:1] == ["masu"]:
                yield words[1:]


def scripts() -> list[str]:
    return [step["run"] for step in document("action.yml")["runs"]["steps"]]


def test_every_command_of_the_action_is_one_that_there_is() -> None:
    """Names and options are those of the command line; nothing is run."""
    told = [words for script in scripts() for words in commands(script)]
    assert [words[0] for words in told] == ["convert", "check", "verify", "diff"]
    for name, *arguments in told:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        command.make_context(name, list(arguments), resilient_parsing=False)


def test_the_workflow_runs_the_action_in_the_place_that_the_docs_name() -> None:
    steps = workflow()["jobs"]["package"]["steps"]
    assert [step["uses"] for step in steps if "uses" in step].count(ACTION) == 1
    page = (ROOT / "docs/ci.md").read_text()
    assert f"`{ACTION.removeprefix('./')}/action.yml`" in page
