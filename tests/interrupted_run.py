"""A conversion in a process of its own that ends itself, by a signal, at a chosen moment.

    python interrupted_run.py SOURCE OUT SIGNAL MOMENT RESUME

MOMENT is the name of a step (see STEPS), or how many bytes were written. A `-` never ends itself.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from masu import pipeline
from masu.cli import main
from masu.specs import output, package_writer

STEPS = {
    "locked": (output, "_prepare"),
    "small files": (package_writer, "_write"),
    "sync": (output, "_sync_files"),
    "place": (output, "_put_in_place"),
}


def die_on(module: Any, name: str, number: int, *, after: bool) -> None:
    """The function ends the process before or after its work."""
    original = getattr(module, name)

    def deadly(*args: Any, **kwargs: Any) -> Any:
        if not after:
            os.kill(os.getpid(), number)
        result = original(*args, **kwargs)
        os.kill(os.getpid(), number)
        return result

    setattr(module, name, deadly)


def die_at(threshold: int, number: int) -> None:
    """Dies when so many bytes of model.safetensors are written."""
    original = pipeline.write_package

    def deadly(*args: Any, on_bytes: Any, **kwargs: Any) -> Any:
        written = 0

        def count(size: int) -> None:
            nonlocal written
            written += size
            on_bytes(size)
            if written >= threshold:
                os.kill(os.getpid(), number)

        return original(*args, on_bytes=count, **kwargs)

    module: Any = pipeline
    module.write_package = deadly


if __name__ == "__main__":
    source, out, name, moment, *options = sys.argv[1:]
    number = signal.Signals[name]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
    if moment.startswith("after "):
        die_on(*STEPS[moment.removeprefix("after ")], number, after=True)
    elif moment in STEPS:
        die_on(*STEPS[moment], number, after=False)
    elif moment != "-":
        die_at(int(moment), number)
    main(["convert", str(Path(source)), "-o", out, "--no-verify", *options])
