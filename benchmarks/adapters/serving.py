"""What every adapter does: loads once, then answers requests, one JSON object a line.

Adapters run with an interpreter of their own, in which masu need not be installed: nothing here
but the standard library.

The first line out says `load_seconds`, `versions` and the type of the `activations`.
Request: `{"ids": [...] or "text": "...", "max_tokens": n}`, and `"seconds": s` if it shall stop so
long after its first token, with what it has by then (two tokens at least). Answer: `ids`, `text`,
`first_token_seconds`, `prefill_tokens_per_second`, `decode_tokens_per_second`, `resident_bytes`
and `peak_bytes` of the process, `prompt_tokens`; or `{"error": "..."}`.
Everything is greedy, and stop tokens stop nothing.
"""

import argparse
import json
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol


class Model(Protocol):
    """What an adapter adapts to.

    Attributes:
        activations: in what numbers it computes.
    """

    activations: str

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def generate(self, ids: Sequence[int], max_tokens: int) -> Iterator[int]:
        """Exactly so many tokens, each as soon as it is known; nothing kept from earlier calls."""
        ...


def serve(load: Callable[[argparse.Namespace], Model], distributions: Sequence[str]) -> None:
    """The whole of an adapter's program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--dtype")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        # Some libraries take no number of threads: nobody gets more processors than that.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    # Libraries print what they like; the answers keep the descriptor to themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    began = perf_counter()
    model = load(options)
    told: dict[str, Any] = {
        "load_seconds": perf_counter() - began,
        "versions": found(distributions),
        "activations": model.activations,
    }
    print(json.dumps(told), file=answers)
    for line in sys.stdin:
        try:
            answer = answered(model, json.loads(line))
        except Exception as failure:
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer), file=answers)


def found(distributions: Sequence[str]) -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in distributions}}


def answered(model: Model, request: dict[str, Any]) -> dict[str, Any]:
    ids = request.get("ids")
    if ids is None:
        ids = model.encode(request["text"])
    began = perf_counter()
    tokens = model.generate(ids, request["max_tokens"])
    told = [next(tokens)]
    first = perf_counter()
    ends = first + request.get("seconds", float("inf"))
    for token in tokens:
        told.append(token)
        if perf_counter() >= ends:
            break
    seconds = perf_counter() - first
    return {
        "ids": told,
        "text": model.decode(told),
        "prompt_tokens": len(ids),
        "first_token_seconds": first - began,
        "prefill_tokens_per_second": len(ids) / (first - began),
        "decode_tokens_per_second": (len(told) - 1) / seconds if len(told) > 1 else None,
        "resident_bytes": resident_bytes(),
        "peak_bytes": peak_bytes(),
    }


def resident_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return None
    return pages * resource.getpagesize()


def peak_bytes() -> int:
    """Since this program began: `ru_maxrss` would tell, on Linux, of the process that forked it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
