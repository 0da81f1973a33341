"""`masu schema`: the package format as JSON Schema."""

import click

from masu.cli.output import print_json


@click.command()
def command() -> None:
    """Print the package format as JSON Schema.

    One schema for each kind of JSON text in a package: config.json, the weight specs in the
    metadata of model.safetensors, manifest.json and signature.json.
    """
    from masu.specs.schema_snapshot import schema

    print_json(schema())
