"""`masu classify`: probabilities by label, the likeliest first; other packages are refused."""

import json
import subprocess
import sys

import pytest
from golden import GOLDEN

from masu.runtime.classifier import load

PACKAGE = GOLDEN / "modernbert/engine"


@pytest.fixture(scope="module")
def expected() -> dict[str, float]:
    return load(PACKAGE, dtype="float32", backend="numpy").classify("is this safe?")


def masu(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "masu", "classify", *map(str, arguments), "--backend", "numpy"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_json_has_every_label(expected: dict[str, float]) -> None:
    done = masu(PACKAGE, "is this safe?", "--dtype", "float32", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found == expected
    assert list(found) == sorted(found, key=lambda label: -expected[label])


def test_people_get_columns(expected: dict[str, float]) -> None:
    done = masu(PACKAGE, "is this safe?", "--dtype", "float32")
    ranked = sorted(expected, key=lambda label: -expected[label])
    assert done.stdout.splitlines() == [f"{expected[label]:.4f}  {label}" for label in ranked]


def test_a_language_model_is_sent_elsewhere() -> None:
    done = masu(GOLDEN / "llama-tied/engine", "is this safe?")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no classifier" in done.stderr
    assert "hint: `masu run`" in done.stderr
