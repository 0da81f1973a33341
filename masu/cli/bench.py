"""`masu bench`: how fast a package runs, and how much memory that takes; or the kernel contract."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from masu.cli import options
from masu.cli.failure import NO, YES
from masu.cli.output import note, print_columns

if TYPE_CHECKING:
    from masu.runtime.backend import Backend


OF_A_PACKAGE = ("dtype", "prompt_tokens", "new_tokens", "rounds")
"""Options that the contract would not read: it has its own types and shapes."""


@click.command(short_help="Measure loading, reading, writing and memory; test kernels.")
@click.argument("package", type=click.Path(path_type=Path), required=False)
@options.backend
@options.dtype
@options.threads
@options.activations
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
@click.option(
    "--contract",
    is_flag=True,
    help="Judge the backend's operations by the kernel contract instead.",
)
@click.pass_context
def command(
    ctx: click.Context, package: Path | None, backend: str | None, contract: bool, **settings: Any
) -> None:
    """Measure PACKAGE: one JSON object a line, for each figure as soon as it is known.

    load; weights_in_file, weights_in_memory (the jax backend holds float32, whatever is stored),
    state, resident and peak memory of this process; in every round time_to_first_token, prefill
    and decode; compiled_programs; kernel_programs, 1 where a step of one token needs nothing but
    kernels, else with the reason. Round 0 also compiles, or fetches what was compiled before.

    With --contract no package is needed: every operation of the backend goes through six gates,
    which are tested first with kernels that are wrong on purpose. Prints a table, and on stderr
    what was found. Exit status 1 if a gate fails. With --activations the reference rounds, too.
    """
    if contract == (package is not None):
        raise click.UsageError("bench takes either a package or --contract")
    unread = [n for n in OF_A_PACKAGE if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    if contract and unread:
        listed = ", ".join(f"--{name.replace('_', '-')}" for name in unread)
        raise click.UsageError(f"--contract has no use for {listed}")
    from masu.cli.jax_settings import configure_jax

    configure_jax()
    if package is None:
        from masu.runtime.backends import load_backend

        computing = {name: settings[name] for name in ("threads", "activations")}
        ctx.exit(YES if judge(load_backend(backend, **computing)) else NO)
    _measure(package, {"backend": backend, **settings})


def _measure(package: Path, settings: dict[str, Any]) -> None:
    from masu.measurement import bench

    for measurement in bench(package, **settings):
        figure = asdict(measurement)
        conditions = figure.pop("settings")
        click.echo(json.dumps({**figure, **conditions}, ensure_ascii=False))


def judge(backend: "Backend") -> bool:
    """Prints what the contract says of a backend; whether everything passed."""
    from masu.runtime.contract.contract import run_contract
    from masu.runtime.contract.table import problems, rows

    judgements = list(run_contract(backend))
    click.echo(f"backend {backend.name}")
    print_columns(rows(judgements))
    for problem in problems(judgements):
        note(problem)
    return all(each.passed for each in judgements)
