"""Prints docs/engines.md, every rule of every engine release: `python docs/engines_page.py`."""

from collections.abc import Iterator

from masu.specs.engine import EngineProfile, Rule
from masu.specs.engines import ENGINES

INTRODUCTION = """# Engine releases

Made from the profiles in `specs/engines` by `docs/engines_page.py`.

`masu check PACKAGE --engine E` judges a package by the rules of one release and tells all reasons
at once. There are three answers:

- **loads**: no rule objects;
- **refused**: the release does not load the package, or cannot generate with its defaults. The
  check fails (exit status 1). masu's own runtime may run the package all the same;
- **differs**: the release loads the package and computes something else than the package says.
  This is a warning: it is printed, and has the severity `warning` in JSON, and the check still
  succeeds (exit status 0).

A package is written in the dialect of one release; another one refuses it (`other-release`) until
`masu migrate` has written it anew. What lies between two releases, a chat codec with a
`response_format` object, no release reads; `masu migrate` repairs it where the object holds a
`reasoning_pattern`, and perhaps an `end_of_thinking_tag`, and refuses any other field by name."""


def page() -> Iterator[str]:
    """Paragraphs, one table for each release."""
    yield INTRODUCTION
    for engine in reversed(ENGINES.values()):
        yield f"## {engine.name}"
        yield "\n".join(_table(engine))
        if engine.unknown:
            yield "\n".join(["Not known:", "", *(f"- {item};" for item in engine.unknown)])


def _table(engine: EngineProfile) -> Iterator[str]:
    yield "| rule | a package that loads | otherwise |\n|---|---|---|"
    yield from (_row(rule) for rule in engine.rules)


def _row(rule: Rule) -> str:
    return f"| `{rule.id}` | {rule.limit} | {rule.effect} |"


if __name__ == "__main__":
    print("\n\n".join(page()))
