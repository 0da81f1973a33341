"""Summaries agree with the files they are about."""

from math import prod
from pathlib import Path

import pytest
from golden import GOLDEN

from masu.specs.formats import IntSpec
from masu.specs.package import Package
from masu.specs.summary import Summary, describe_format, summarize
from masu.specs.tensors import Matrix

PACKAGES = sorted(path.parent for path in GOLDEN.glob("*/engine"))


def summary(path: Path) -> tuple[Package, Summary]:
    package = Package.open(path / "engine")
    parts = package.config, package.formats, package.dtype, package.planes
    return package, summarize(*parts, context=100)


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.name)
def test_bytes_are_those_of_the_file(path: Path) -> None:
    package, found = summary(path)
    stored = package.container.tensors.values()
    assert found.tensors == len(stored)
    assert found.weight_bytes == sum(tensor.length for tensor in stored)


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.name)
def test_format_shares_cover_every_matrix_once(path: Path) -> None:
    package, found = summary(path)
    shapes = [entry.shape for _, entry in package.config.tensors() if isinstance(entry, Matrix)]
    assert sum(share.matrices for share in found.formats.values()) == len(shapes)
    assert sum(share.values for share in found.formats.values()) == sum(map(prod, shapes))
    assert sum(share.bytes for share in found.formats.values()) <= found.weight_bytes


def test_bits_per_weight_count_scales_too() -> None:
    """4 bits of code and a bfloat16 scale for every 32 of them."""
    _, found = summary(GOLDEN / "llama-int4-g32-sym")
    assert found.formats["Int, 4 bits, groups of 32"].bits_per_weight == 4 + 16 / 32


def test_formats_in_words() -> None:
    package, _ = summary(GOLDEN / "llama-rht-int4")
    words = {describe_format(kept) for kept in package.formats.values()}
    assert "Hybrid, quantized Int, 4 bits, groups of 32, rotated in blocks of 32" in words
    assert not any(isinstance(kept, IntSpec) for kept in package.formats.values())
