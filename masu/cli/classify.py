"""`masu classify`: how likely each label of a classifier is for one text."""

from pathlib import Path

import click

from masu.cli import options
from masu.cli.output import print_columns, print_json


@click.command(short_help="Label a text.")
@options.package
@click.argument("text")
@options.backend
@options.dtype
@options.threads
@options.activations
@options.as_json
def command(
    package: Path, text: str, backend: str | None, dtype: str | None, threads: int | None,
    activations: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say how likely each label of the classifier in PACKAGE is for TEXT, the likeliest first.

    Each label is judged by itself, from 0 to 1; they need not add up to 1.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.runtime.classifier import load

    configure_jax()
    computing = {"dtype": dtype, "backend": backend, "activations": activations}
    classifier = load(package, threads=threads, **computing)
    found = classifier.classify(text)
    ranked = sorted(found.items(), key=lambda entry: entry[1], reverse=True)
    if as_json:
        print_json(dict(ranked))
    else:
        print_columns((f"{probability:.4f}", label) for label, probability in ranked)
