"""Arguments and options that several commands share."""

import os
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

DTYPES = click.Choice(["float32", "float16", "bfloat16"])


class _Folder(click.Path):
    """Not an empty text, which a path would take for the folder that one is in."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # fmt: skip
        if not os.fspath(value):
            self.fail("expected the name of a folder, found an empty text", param, ctx)
        return super().convert(value, param, ctx)


FOLDER = _Folder(path_type=Path)

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

junit = click.option(
    "--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="F",
    help="Also write a JUnit XML report to F.",
)  # fmt: skip

package = click.argument("package", type=click.Path(path_type=Path))

backend = click.option("--backend", metavar="B", help="Runtime backend (native, jax, mlx, numpy).")

dtype = click.option(
    "--dtype", type=DTYPES, help="Compute in this type; without it, as the engine does."
)

threads = click.option(
    "--threads", type=click.IntRange(min=1), metavar="N",
    help="Share the work of the native kernels among N threads; without it, one a processor.",
)  # fmt: skip

activations = click.option(
    "--activations", type=click.Choice(["int8"]),
    help="Round rows of activations that meet codes of 4 and 8 bits; without it, nothing is.",
)  # fmt: skip

calibration = click.option(
    "--calibration", metavar="F",
    help="Text file for calibrated methods, or generated: text that the model makes up.",
)  # fmt: skip

report = click.option(
    "--report", type=click.Path(path_type=Path), metavar="F",
    help="Measure fidelity, and write it as an HTML page.",
)  # fmt: skip

system = click.option(
    "--system", metavar="TEXT", help="System message; without it, the package's own."
)

reasoning_effort = click.option(
    "--reasoning-effort", metavar="E",
    help="How much to think: xhigh, high, medium, low or no_reasoning, as far as a model has them.",
)  # fmt: skip

_GENERATION = (
    click.option(
        "--max-tokens", type=click.IntRange(min=1), default=512, show_default=True, metavar="N",
        help="End a reply after this many tokens.",
    ),
    click.option(
        "--stop", multiple=True, metavar="TEXT", help="End a reply before this text (repeatable)."
    ),
    click.option(
        "--temperature", type=click.FloatRange(min=0), metavar="T",
        help="0 takes the most likely token. Without this and the following, the package's own.",
    ),
    click.option(
        "--top-k", type=int, metavar="K", help="Only the K most likely tokens; 0 for all."
    ),
    click.option(
        "--top-p", type=float, metavar="P",
        help="Only the most likely tokens, until their share reaches P; 1 for all.",
    ),
    click.option(
        "--min-p", type=float, metavar="P",
        help="Only tokens P times as likely as the best, or more; 0 for all.",
    ),
    click.option(
        "--repetition-penalty", type=float, metavar="X",
        help="Divide the logits of tokens seen (multiply, if negative); 1 for none.",
    ),
    click.option(
        "--presence-penalty", type=float, metavar="X", help="Subtract from logits of tokens seen."
    ),
    click.option(
        "--frequency-penalty", type=float, metavar="X",
        help="Subtract from logits of tokens, for every time seen.",
    ),
    click.option(
        "--penalty-window", type=int, metavar="N", help="How many last tokens count as seen."
    ),
    click.option(
        "--ban-token", "banned_tokens", type=int, multiple=True, metavar="ID",
        callback=lambda ctx, param, ids: ids or None, help="Never choose this token (repeatable).",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), metavar="S",
        help="The same seed gives the same reply.",
    ),
)  # fmt: skip


def generation(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every reply: `max_tokens`, `stop`, and what `Sampling.override` takes."""
    return reduce(lambda decorated, option: option(decorated), reversed(_GENERATION), command)
