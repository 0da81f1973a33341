"""`masu bench`: how fast a package runs, and how much memory that takes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from masu.cli import options


@click.command(short_help="Measure loading, reading, writing and memory.")
@options.package
@options.backend
@options.dtype
@click.option(
    "--prompt-tokens",
    type=int,
    default=512,
    show_default=True,
    metavar="N",
    help="Length of the prompt.",
)
@click.option(
    "--new-tokens",
    type=int,
    default=64,
    show_default=True,
    metavar="N",
    help="How many tokens to generate.",
)
@click.option(
    "--rounds", type=int, default=3, show_default=True, metavar="R",
    help="How often, after a first round that also compiles.",
)  # fmt: skip
def command(package: Path, **settings: Any) -> None:
    """Measure PACKAGE: one JSON object a line, for each figure as soon as it is known.

    load; weights_in_file, weights_in_memory (the jax backend holds float32, whatever is stored),
    state, resident and peak memory of this process; in every round time_to_first_token, prefill
    and decode; compiled_programs. Round 0 also compiles, or fetches what was compiled before.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.measurement import bench

    configure_jax()
    for measurement in bench(package, **settings):
        figure = asdict(measurement)
        conditions = figure.pop("settings")
        click.echo(json.dumps({**figure, **conditions}, ensure_ascii=False))
