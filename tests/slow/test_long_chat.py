"""A chat of 4,096 tokens with real weights, by the benchmark that also times it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from masu.runtime.state import SMALLEST_CAPACITY, bucket

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "chat.py"

pytestmark = pytest.mark.nightly


def test_a_long_chat() -> None:
    """Two programs for each size of the caches; what was run is not run again, which changes no
    token in float32 (the benchmark says by its exit status)."""
    command = [sys.executable, BENCHMARK, "--tokens", "4096", "--questions", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 4000 < found["chat_tokens"] <= 4096
    assert len(found["tokens_after_each_turn"]) > 4
    buckets = bucket(found["chat_tokens"]).bit_length() - SMALLEST_CAPACITY.bit_length() + 1
    programs = found["compiled_programs"]
    assert programs.pop("layer.apply") <= 2 * buckets
    assert programs == {"decoder.enter": 2, "decoder.leave_row": 1}
    assert found["reused_tokens"] > 0.99 * found["prompt_tokens"]
    assert found["same_tokens"] is True
