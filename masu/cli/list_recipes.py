"""`masu list-recipes`: the ready-made recipes."""

import click

from masu.cli import options
from masu.cli.output import print_columns, print_json


@click.command(short_help="Ready-made recipes for quantising.")
@options.as_json
def command(*, as_json: bool) -> None:
    """The recipes that `convert` and `quantize` know by name.

    With --json each is printed as a whole: a start for one of your own, which is a file with the
    same keys, in JSON or TOML.
    """
    from masu.specs.recipe import named_recipes

    recipes = named_recipes()
    if as_json:
        print_json({name: recipe.model_dump(mode="json") for name, recipe in recipes.items()})
    else:
        print_columns((name, recipe.description) for name, recipe in recipes.items())
