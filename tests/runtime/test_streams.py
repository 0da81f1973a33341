"""The stream after each layer: that of the float64 reference, and of layers taken by themselves."""

from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend

from masu.runtime.model import PREFILL, load_model
from masu.runtime.reference import reference_stages
from masu.specs.errors import RequestError
from masu.specs.package import Package

IDS = list(range(3, 20))


def package(case: str) -> Package:
    return Package.open(Path(GOLDEN) / case / "engine")


@pytest.mark.parametrize("case", ["gemma4-text", "qwen3_5", "lfm2"])
def test_streams_are_those_of_the_reference(case: str) -> None:
    """Also where layers read another's cache, or keep a recurrent or a convolution's state."""
    model = load_model(package(case), backend=shared_backend("numpy"))
    stages = [stream for _, stream in reference_stages(package(case), IDS)][:-1]
    np.testing.assert_allclose(np.stack(model.streams(IDS)), np.stack(stages), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", ["gemma4-text", "qwen3_5"])
def test_layers_that_get_their_own_streams_say_the_same(case: str) -> None:
    model = load_model(package(case), backend=shared_backend("numpy"))
    streams = model.streams(IDS)
    np.testing.assert_array_equal(model.streams(IDS, given=streams[:-1]), streams)


def test_a_layer_sees_what_it_is_given_and_nothing_else() -> None:
    model = load_model(package("qwen3"), backend=shared_backend("numpy"))
    streams = model.streams(IDS)
    given = [streams[0], 2 * streams[1], streams[2]]
    found = model.streams(IDS, given=given)
    changed = [not np.array_equal(a, b) for a, b in zip(found, streams, strict=True)]
    assert changed == [False, False, True, False]


def test_one_step_is_the_limit() -> None:
    model = load_model(package("qwen3"), backend=shared_backend("numpy"))
    with pytest.raises(RequestError, match="at most 64 tokens, not 65"):
        model.streams([1] * (PREFILL + 1))
