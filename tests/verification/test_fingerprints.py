"""Every fault in a package shows in the fingerprint of the block it is in, and in no honest one.

Hashes are those of the edited package, so that only the numbers can tell.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from package_copies import add_manifest, copy_package, edit_config
from package_faults import ANY, CONFIG, PLAIN, QUANTISED, Fault

import masu
from masu.specs.errors import RequestError, SchemaError
from masu.specs.fingerprints import FINGERPRINTS, Fingerprints
from masu.specs.package import Package
from masu.verification.fingerprints import divergences, fingerprints_of
from masu.verification.prints import TOLERANCE, distance, print_of
from masu.verification.recorded import write_fingerprints

QUANTISED_CASE = "llama-int4-g32-asym"
CASES = [
    *(pytest.param("llama", each, id=name) for name, each in {**ANY, **PLAIN}.items()),
    *(
        pytest.param(QUANTISED_CASE, each, id=f"quantised: {name}")
        for name, each in {**ANY, **QUANTISED}.items()
    ),
    *(pytest.param(case, each, id=name) for name, (case, each) in CONFIG.items()),
]


@pytest.mark.parametrize(("case", "fault"), CASES)
def test_a_fault_is_found_in_its_block(case: str, fault: Fault, tmp_path: Path) -> None:
    folder = copy_package(case, tmp_path)
    write_fingerprints(folder)
    fault.apply(folder)
    add_manifest(folder)
    assert not [found for found in masu.check(folder) if found.kind == "integrity"]
    verdict = masu.verify(folder)
    assert not verdict.passed
    assert verdict.diverging is not None
    assert verdict.diverging.block == fault.block
    assert fault.block in verdict.describe()


@pytest.mark.parametrize("name", CONFIG)
def test_a_config_shows_in_what_the_block_computes(name: str, tmp_path: Path) -> None:
    """Not only in the copy of the config."""
    case, fault = CONFIG[name]
    folder = copy_package(case, tmp_path)
    before = fingerprints_of(Package.open(folder))
    fault.apply(folder)
    after = fingerprints_of(Package.open(folder))
    far = [distance(a.output, b.output) for a, b in zip(after.blocks, before.blocks, strict=True)]
    assert far[0] == 0  # the entry has no part in it
    assert far[1] > 100 * TOLERANCE


def test_a_window_longer_than_the_input_shows_in_the_config(tmp_path: Path) -> None:
    folder = copy_package("gemma2", tmp_path)
    windows = iter((9000, 9001))

    def widen(config: dict) -> None:
        config["decoder_config"]["transformer_config"]["layer_configs"][0]["mixer_config"][
            "sliding_window_size"
        ] = next(windows)

    edit_config(folder, widen)
    write_fingerprints(folder)
    edit_config(folder, widen)
    found = masu.verify(folder).diverging
    assert found is not None
    assert found.config == ("config.mixer_config.sliding_window_size: 9000 expected, found 9001",)


@pytest.mark.parametrize("case", ["llama", "llama-mlx-4bit-g64", "modernbert", "llamba", "gpt_oss"])
def test_an_untouched_package_passes_ten_times(case: str, tmp_path: Path) -> None:
    folder = copy_package(case, tmp_path)
    write_fingerprints(folder)
    for _ in range(10):
        assert masu.verify(folder).passed


def test_numbers_may_differ_in_their_last_digits(tmp_path: Path) -> None:
    """By as much as another order of summation, not by a millionth."""
    recorded = fingerprints_of(Package.open(copy_package("llama", tmp_path)))

    def moved(by: float) -> Fingerprints:
        blocks = [
            block.model_copy(update={"output": tuple((x or 0) * (1 + by) for x in block.output)})
            for block in recorded.blocks
        ]
        return recorded.model_copy(update={"blocks": tuple(blocks)})

    assert not list(divergences(moved(1e-13), recorded))
    assert len(list(divergences(moved(1e-6), recorded))) == len(recorded.blocks)


def test_the_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    found = fingerprints_of(Package.open(copy_package("gemma4-text", tmp_path)))
    assert Fingerprints.from_bytes(found.to_bytes()) == found
    with pytest.raises(SchemaError, match="tokens"):
        Fingerprints.from_bytes(found.to_bytes().replace(b'"tokens"', b'"token"'))


def test_what_is_not_finite_is_never_equal_to_a_number(tmp_path: Path) -> None:
    values = np.ones((4, 4), np.float32)
    plain = print_of(values)
    values[1, 1] = math.nan
    damaged = print_of(values)
    assert None in damaged
    assert distance(damaged, plain) == distance(plain, damaged) == math.inf


def test_without_fingerprints_it_cannot_be_said(tmp_path: Path) -> None:
    folder = copy_package("llama", tmp_path)
    with pytest.raises(RequestError, match=FINGERPRINTS):
        masu.verify(folder)
