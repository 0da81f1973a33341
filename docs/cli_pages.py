"""Prints docs/cli.md, the `--help` page of every command: `python docs/cli_pages.py`."""

from collections.abc import Iterator

import click

from masu.cli.app import COMMANDS, main


def pages() -> Iterator[str]:
    """The pages in the order of the commands, 80 columns wide whatever the terminal is."""
    yield "# Command line\n\nMade from `--help` by `docs/cli_pages.py`."
    for name in ("masu", *(f"masu {command}" for command in COMMANDS)):
        yield f"## {name}\n\n```\n{_help(name)}\n```"


def _help(name: str) -> str:
    program, *command = name.split()
    context = click.Context(
        main, info_name=program, terminal_width=80, help_option_names=["-h", "--help"]
    )
    if not command:
        return main.get_help(context)
    found = main.get_command(context, command[0])
    assert found is not None
    return found.get_help(click.Context(found, parent=context, info_name=command[0]))


if __name__ == "__main__":
    print("\n\n".join(pages()))
