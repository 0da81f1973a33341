"""Arguments and options that several commands share."""

from pathlib import Path

import click

DTYPES = click.Choice(["float32", "float16", "bfloat16"])

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

package = click.argument("package", type=click.Path(path_type=Path))

backend = click.option("--backend", metavar="B", help="Runtime backend (jax, numpy).")

dtype = click.option(
    "--dtype", type=DTYPES, help="Compute in this type; without it, as the engine does."
)

max_tokens = click.option(
    "--max-tokens", type=click.IntRange(min=1), default=512, show_default=True, metavar="N",
    help="End a reply after this many tokens.",
)  # fmt: skip

temperature = click.option(
    "--temperature", type=click.FloatRange(min=0), metavar="T",
    help="0 takes the most likely token; without it, the package's own.",
)  # fmt: skip

seed = click.option(
    "--seed", type=click.IntRange(min=0), metavar="S", help="The same seed gives the same reply."
)
