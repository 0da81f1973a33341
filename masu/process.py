"""What this process has used of the machine so far."""

import resource
import sys
from pathlib import Path


def peak_bytes() -> int:
    """Largest resident memory of this process until now, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes on Linux


def resident_bytes() -> int | None:
    """Resident memory of this process now, in bytes; None where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return None
    return pages * resource.getpagesize()
