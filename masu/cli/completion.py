"""What the shell offers for SOURCE when Tab is pressed: named models, and paths."""

import click
from click.shell_completion import CompletionItem


def complete_source(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names that begin so; if there are none, repositories. The shell adds its paths."""
    from masu.specs.models import named_models

    models = named_models()
    # In `pypi:...` the shell would take the colon for the end of a word.
    repositories = [model.repo for model in models if ":" not in model.repo]
    found = _beginning([model.name for model in models], incomplete)
    found = found or _beginning(repositories, incomplete)
    # First, since bash forgets what comes before it; there, paths appear where nothing else fits.
    paths = CompletionItem(incomplete, type="file")
    return [paths, *map(CompletionItem, found)]


def _beginning(keys: list[str], start: str) -> list[str]:
    return [key for key in keys if key.lower().startswith(start.lower())]
