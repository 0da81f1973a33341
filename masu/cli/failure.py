"""How a failure is told on stderr, and the exit status it ends with."""

import sys
import traceback

import click

from masu.cli.signals import Terminated
from masu.specs.errors import MasuError, VerdictError
from masu.specs.printable import printable

YES, NO, CANNOT, INTERRUPTED = 0, 1, 2, 130
PIPE_CLOSED = 141
"""What shells report for a program that SIGPIPE ended: the answer was not read to its end."""

DEFECT = "this is a defect in masu, not in your input\n\nhint: report it, with the lines above"


def exit_code(error: BaseException) -> int:
    """1 if the error is an answer (the verdict is no), 130 for Ctrl-C, 2 for all others.

    143 for SIGTERM and 129 for SIGHUP.
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Terminated):
        return 128 + error.signal  # as shells report it
    return NO if isinstance(error, VerdictError) else CANNOT


def report(error: BaseException) -> None:
    """One message on stderr: `error: ...`, the problems, and the hint after a blank line."""
    match error:
        case MasuError():
            _say("error", str(error))
        case KeyboardInterrupt():
            _say("error", "interrupted")
        case Terminated():
            _say("error", f"ended by {error.signal.name}")
        case OSError():
            _say("error", printable(_describe(error)))
        case _:
            traceback.print_exception(error, file=sys.stderr)
            _say("error", DEFECT)


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{reason}: {error.filename}"


def _say(kind: str, text: str) -> None:
    click.echo(f"{click.style(kind + ':', fg='red', bold=True)} {text}", err=True)
