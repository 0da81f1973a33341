"""The runtimes that are compared: each in a process of its own, spoken to in lines of JSON."""

import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass(frozen=True)
class Contender:
    """Attributes:
    adapter: the file in `adapters/`.
    module: without which it is absent.
    compiles: it compiles for the lengths it is given, so that a first answer says nothing of speed.
    """

    name: str
    adapter: str
    module: str
    compiles: bool = False


CONTENDERS = (
    Contender("masu", "with_masu.py", "masu", compiles=True),
    Contender("llama.cpp", "with_llama.py", "llama_cpp"),
    Contender("mlx-lm", "with_mlx.py", "mlx_lm"),
    Contender("transformers", "with_transformers.py", "transformers"),
    Contender("lalamo", "with_lalamo.py", "lalamo", compiles=True),
)


@dataclass(frozen=True)
class Limits:
    """Attributes:
    seconds: of a single answer: reading and writing each stop there.
    patience: seconds after which a contender that says nothing is ended.
    """

    seconds: float
    patience: float


def why_absent(python: str, module: str) -> str | None:
    """Why an interpreter cannot import a module; None where it can."""
    command = [python, "-c", f"import {module}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        return str(problem)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


class Gone(Exception):
    """A contender answers no more; the message says why."""


class Running:
    """A contender that has loaded its model.

    Attributes:
        told: what it said when it had: `load_seconds`, `versions` and `activations`.

    Raises:
        Gone: it could not load, or not in time.
    """

    def __init__(
        self,
        contender: Contender,
        python: str,
        path: Path,
        threads: int,
        *arguments: str,
        patience: float | None = None,
    ) -> None:
        adapter = str(ADAPTERS / contender.adapter)
        command = [python, adapter, str(path), "--threads", str(threads), *arguments]
        self.contender = contender
        self._patience = patience
        # What a library says while it loads is only of interest where it fails.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.told = self._line("loading")

    def ask(
        self, ids: Sequence[int], max_tokens: int, seconds: float | None = None
    ) -> dict[str, Any]:
        """The answer; where `seconds` are given it may be shorter than `max_tokens`.

        Raises:
            Gone: there is none, or not in time.
        """
        assert self._process.stdin is not None
        request: dict[str, Any] = {"ids": list(ids), "max_tokens": max_tokens}
        if seconds is not None:
            request["seconds"] = seconds
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Gone(f"ended with status {self.close()}") from None
        answer = self._line(f"reading {len(ids):,} tokens and writing {max_tokens}")
        if "error" in answer:
            self.close()
            raise Gone(answer["error"])
        return answer

    def close(self) -> int:
        """Its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()

    def _line(self, what: str) -> dict[str, Any]:
        """Nothing of an earlier line is left in the buffer: there is one for each request."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self._patience)
        if not ready:
            self._process.kill()
            self.close()
            raise Gone(f"{what} took more than {self._patience:,g} s")
        line = self._process.stdout.readline()
        if not line:
            raise Gone(f"ended with status {self.close()}")
        return json.loads(line)


class Field:
    """Everyone who still runs. Who fails or takes too long leaves it, and is not waited for again.

    Attributes:
        running: by name, in the order of the table.
        told: what each said when it had loaded.
        left: why someone is not there any more.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.running: dict[str, Running] = {}
        self.told: dict[str, dict[str, Any]] = {}
        self.left: dict[str, str] = {}

    def enter(
        self, contender: Contender, python: str, path: Path, threads: int, *arguments: str
    ) -> None:
        print(f"{contender.name} loads", file=sys.stderr)
        patience = self.limits.patience
        try:
            entered = Running(contender, python, path, threads, *arguments, patience=patience)
        except Gone as reason:
            self.left[contender.name] = str(reason)
            return
        self.running[contender.name] = entered
        self.told[contender.name] = entered.told

    def ask(
        self, name: str, ids: Sequence[int], max_tokens: int, *, whole: bool = False
    ) -> dict[str, Any] | None:
        """None if it has left, now or before.

        Args:
            whole: all tokens, however long that takes; else what there is in the time of an answer.
        """
        if name not in self.running:
            return None
        try:
            return self.running[name].ask(
                ids, max_tokens, seconds=None if whole else self.limits.seconds
            )
        except Gone as reason:
            print(f"{name} leaves: {reason}", file=sys.stderr)
            self.left[name] = str(reason)
            del self.running[name]
            return None

    def close(self) -> None:
        for each in self.running.values():
            each.close()


def interpreters(given: Mapping[str, str | None]) -> dict[str, str]:
    """Each contender's Python: the one that was named, or this one."""
    return {each.name: given.get(each.name) or sys.executable for each in CONTENDERS}
