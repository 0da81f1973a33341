"""`masu list-models`: the checkpoints that masu knows by name."""

import click

from masu.cli import options
from masu.cli.output import note, print_columns, print_json
from masu.specs.models import ModelSpec, named_models


@click.command(short_help="List the models that have a name.")
@click.argument("query", default="")
@options.as_json
def command(query: str, as_json: bool) -> None:
    """List the models that convert by name, or those that QUERY occurs in.

    Other checkpoints of the same families convert just as well; a name only adds what the
    checkpoint does not say about itself. The last column says why a model does not convert.
    """
    found = [model for model in named_models() if query.lower() in _searched(model)]
    if as_json:
        print_json([_entry(model) for model in found])
    elif found:
        print_columns(tuple(_entry(model).values()) for model in found)
    else:
        note(f"no named model contains: {query}")


def _searched(model: ModelSpec) -> str:
    return " ".join(_entry(model).values()).lower()


def _entry(model: ModelSpec) -> dict[str, str]:
    return {
        "name": model.name,
        "repo": model.repo,
        "vendor": model.vendor,
        "family": model.family,
        "size": model.size,
        "model_type": model.model_type or "",
        "unsupported": model.unsupported or "",
    }
