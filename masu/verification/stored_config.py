"""What a package says beside its numbers: config.json and tokenizer.json, against those planned."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from masu.comparison.documents import Absent, pairs
from masu.converter.convert import ConversionPlan
from masu.specs.errors import PackageError
from masu.specs.jsonfile import read_json
from masu.specs.model import MODEL_CONFIG
from masu.specs.package import CONFIG, TOKENIZER, Package
from masu.specs.printable import MOST_LINES
from masu.specs.regular_file import read_regular

WIDTH = 60
MAX_TOKENIZER = 256 * 2**20


def stored_differences(package: Package, planned: ConversionPlan) -> tuple[str, ...]:
    """The first places in which the two files are not what the plan would write.

    Values are compared, not bytes: a dialect spells the same config otherwise.
    """
    differences = (*_in_config(package, planned), *_in_tokenizer(package, planned))
    return tuple(islice(differences, MOST_LINES))


def _in_config(package: Package, planned: ConversionPlan) -> Iterator[str]:
    expected = MODEL_CONFIG.validate_json(planned.config.model_dump_json()).model_dump(mode="json")
    found = package.config.model_dump(mode="json")
    for place, value in ((package.manifest and package.manifest.carried) or {}).items():
        *outer, key = place.split(".")
        inner = found
        for name in outer:
            inner = inner[name]
        inner[key] = value
    yield from islice(_different(expected, found, CONFIG), MOST_LINES)


def _in_tokenizer(package: Package, planned: ConversionPlan) -> Iterator[str]:
    path = package.path / TOKENIZER
    data = read_regular(path, MAX_TOKENIZER, error=PackageError)
    if data != planned.tokenizer:
        expected = read_json(planned.tokenizer, TOKENIZER, max_bytes=MAX_TOKENIZER)
        found = read_json(data, str(path), max_bytes=MAX_TOKENIZER)
        yield from islice(_different(expected, found, TOKENIZER), MOST_LINES)


def _different(expected: Any, found: Any, file: str) -> Iterator[str]:
    """Each smallest place, with both values."""
    for place, one, other in pairs(expected, found):
        where = f"{file}: {place}" if place else file
        if other is Absent:
            yield f"{where}: expected {_shown(one)}, found no such key"
        elif one is Absent:
            yield f"{where}: expected no such key, found {_shown(other)}"
        else:
            yield f"{where}: {_both(one, other)}"


def _both(expected: Any, found: Any) -> str:
    """Of long texts only from where they part."""
    if isinstance(expected, str) and isinstance(found, str):
        both = enumerate(zip(expected, found, strict=False))
        same = next((i for i, (a, b) in both if a != b), min(len(expected), len(found)))
        if same > WIDTH // 2:
            start = same - 10
            return (
                f"expected {_shown(expected[start:])}, found {_shown(found[start:])}"
                f", from character {start} on"
            )
    return f"expected {_shown(expected)}, found {_shown(found)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
