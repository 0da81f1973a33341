"""Names out of files in messages: nothing that a terminal obeys, nothing endless."""

from pathlib import Path

import numpy as np
import pytest
from checkpoints import copy_golden, edit_tensors
from click.testing import CliRunner

from masu.cli import main
from masu.specs.errors import PackageError
from masu.specs.printable import LONGEST_WORD, printable

HOSTILE = "\x1b[31mred\nhint: all is well\0\u202e\x9b\ud800"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc\0", "a\\nb\\tc\\x00"),
        ("\u202e\u2028\ud800", "\\u202e\\u2028\\ud800"),
        ("naïve 東京 ∅", "naïve 東京 ∅"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_long_names_keep_their_ends() -> None:
    shown = printable(f"tensor {'a' * 10**6}z: missing")
    assert len(shown) < LONGEST_WORD + 20
    assert shown.startswith("tensor aaa")
    assert shown.endswith("az: missing")
    assert len(printable("ab " * 10**6)) <= 4000


def test_an_error_is_printable_and_short() -> None:
    error = PackageError(HOSTILE, problems=[HOSTILE] * 1000, hint=f"first\nsecond {HOSTILE}")
    lines = str(error).split("\n")
    assert all(line.isprintable() for line in lines)
    assert lines[1:41] == [f"  {printable(HOSTILE)}"] * 40
    assert lines[41:44] == ["  and 960 more", "", "hint: first"]
    assert error.problems == (HOSTILE,) * 1000  # for programs all of it, as it is


def test_a_tensor_can_be_called_anything(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    name = "\x1b[2Jx\nerror: none"
    edit_tensors(
        source / "model.safetensors", lambda found: found.update({name: np.zeros(1, np.float32)})
    )
    result = CliRunner().invoke(main, ["convert", str(source), "-o", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "\\x1b[2Jx\\nerror: none" in result.stderr
    assert "\x1b[2J" not in result.stderr
