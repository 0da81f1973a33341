"""Reading a large tokenizer.json leaves little more than the tokenizer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOKENS = 60_000
BOUND = 19
"""Resident bytes for each byte of a file of short words: 14, and 26 if what is freed stays."""

PROGRAM = """
import resource, sys
from pathlib import Path
from masu.specs.text.tokenizer import PackageTokenizer
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
before = resident()
tokenizer = PackageTokenizer.open(Path(sys.argv[1]))
print(resident() - before)
"""


def written(path: Path) -> Path:
    """Words of letters that are put together from their two halves."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words, merges = list(letters), []
    for word in words:
        if len(words) >= TOKENS:
            break
        merges += [[word, letter] for letter in letters]
        words += [word + letter for letter in letters]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges}
    path.write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="glibc gives memory back, others may not")
def test_what_reading_needed_is_given_back(tmp_path: Path) -> None:
    path = written(tmp_path / "tokenizer.json")
    command = [sys.executable, "-c", PROGRAM, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert int(done.stdout) < BOUND * path.stat().st_size
