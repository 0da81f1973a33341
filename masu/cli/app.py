"""The top of the command line: which commands there are, and how a run of one ends."""

import os
import sys
from importlib import import_module

import click

from masu.cli.failure import PIPE_CLOSED, exit_code, report
from masu.cli.signals import Terminated, heard

COMMANDS = (
    "convert",
    "quantize",
    "check",
    "verify",
    "migrate",
    "diff",
    "sign",
    "pull",
    "push",
    "run",
    "chat",
    "classify",
    "bench",
    "info",
    "list-models",
    "list-recipes",
    "schema",
    "capabilities",
    "quickstart",
)


class Commands(click.Group):
    """A group whose commands live in `masu.cli.<name>`, each as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"masu.cli.{cmd_name.replace('-', '_')}").command

    def invoke(self, ctx: click.Context) -> None:
        try:
            with heard():
                self._invoke_and_flush(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            _discard_output()
            ctx.exit(PIPE_CLOSED)
        except (Exception, KeyboardInterrupt, Terminated) as error:
            report(error)
            ctx.exit(exit_code(error))

    def _invoke_and_flush(self, ctx: click.Context) -> None:
        """A closed pipe is noticed here, not while the interpreter shuts down."""
        try:
            super().invoke(ctx)
        finally:
            sys.stdout.flush()


def _discard_output() -> None:
    """The reader has seen enough (`masu ... | head`): what Python still holds goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"masu {version('masu')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Turn Hugging Face checkpoints into on-device engine packages, and prove them.

    Results go to stdout, everything else to stderr. Exit status: 0 yes, 1 the answer is no
    (a check or a verdict failed), 2 it cannot be done, 130 interrupted.
    """
