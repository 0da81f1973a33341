"""The runtimes that are compared: each in a process of its own, spoken to in lines of JSON."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass(frozen=True)
class Contender:
    """Attributes:
    adapter: the file in `adapters/`.
    module: without which it is absent.
    """

    name: str
    adapter: str
    module: str


CONTENDERS = (
    Contender("masu", "with_masu.py", "masu"),
    Contender("llama.cpp", "with_llama.py", "llama_cpp"),
    Contender("mlx-lm", "with_mlx.py", "mlx_lm"),
    Contender("transformers", "with_transformers.py", "transformers"),
    Contender("lalamo", "with_lalamo.py", "lalamo"),
)


def why_absent(python: str, module: str) -> str | None:
    """Why an interpreter cannot import a module; None where it can."""
    command = [python, "-c", f"import {module}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        return str(problem)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


class Running:
    """A contender that has loaded its model.

    Attributes:
        told: what it said when it had: `load_seconds` and `versions`.
    """

    def __init__(
        self, contender: Contender, python: str, path: Path, threads: int, *arguments: str
    ) -> None:
        adapter = str(ADAPTERS / contender.adapter)
        command = [python, adapter, str(path), "--threads", str(threads), *arguments]
        self.name = contender.name
        # What a library says while it loads is only of interest where it fails.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.told = self._line()

    def ask(self, ids: Sequence[int], max_tokens: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        request = {"ids": list(ids), "max_tokens": max_tokens}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._line()
        if "error" in answer:
            raise SystemExit(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self._process.wait()}")
        return json.loads(line)


def interpreters(given: Mapping[str, str | None]) -> dict[str, str]:
    """Each contender's Python: the one that was named, or this one."""
    return {each.name: given.get(each.name) or sys.executable for each in CONTENDERS}
