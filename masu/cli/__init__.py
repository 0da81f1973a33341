"""The `masu` command: one file per subcommand, imported when it is used."""

from masu.cli.app import main

__all__ = ["main"]
