"""What figures depend on beside the model: the processor, and the versions of what computes."""

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path


def cpu_name() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Of Python, and of each distribution."""
    return {"python": platform.python_version(), **{name: version(name) for name in distributions}}
