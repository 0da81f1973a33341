"""What this process has used of the machine so far."""

import resource
import sys


def peak_bytes() -> int:
    """Largest resident memory of this process until now, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes on Linux
