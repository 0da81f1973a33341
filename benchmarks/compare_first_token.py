"""`masu run` from process start to the first token: with an empty compilation cache, and warm."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import perf_counter
from typing import Any

from compare_weights import MODELS, prepare

PROMPT = (
    "Please tell me in one short sentence which town is the capital of France, and then name"
    " the river that flows through the middle of it."
)
"""32 tokens of SmolLM2 with what the template puts around them, or a few more."""


def first_token(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each round: the first of them with an empty cache, the others with a full one."""
    package = prepare(MODELS[0], options.folder / MODELS[0].name, None).paths["masu"]
    cache = options.folder / "first-token-cache"
    empty, warm = [], []
    for _ in range(options.rounds):
        rmtree(cache, ignore_errors=True)
        empty.append(seconds(package, cache, options.threads))
        warm.append(seconds(package, cache, options.threads))
    return {
        "prompt": PROMPT,
        "empty_cache": {"median": median(empty), "all": empty},
        "warm_cache": {"median": median(warm), "all": warm},
    }


def seconds(package: Path, cache: Path, threads: int) -> float:
    """Until the first byte of the answer is there; the process then ends by itself."""
    command = [sys.executable, "-m", "masu", "run", str(package), PROMPT, "--temperature", "0"]
    command += ["--max-tokens", "8", "--threads", str(threads)]
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        # As masu sets them where the folder is not given: by default nothing so small is kept.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    began = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, bufsize=0)
    assert process.stdout is not None
    byte = process.stdout.read(1)
    taken = perf_counter() - began
    process.stdout.read()
    if process.wait() or not byte:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return taken
