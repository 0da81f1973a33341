"""The streaming reference: the stages, and what it keeps in memory."""

import numpy as np
import pytest
from golden import GOLDEN
from tensor_sources import Altered

from masu.runtime.reference import reference_logits, reference_stages
from masu.specs.errors import RequestError
from masu.specs.package import Package

LAYERS = "decoder.transformer.layers"


def test_stages_come_in_order() -> None:
    package = Package.open(GOLDEN / "llama/engine")
    ids = [0, 5, 7]
    stages = dict(reference_stages(package, ids))
    assert list(stages) == ["decoder.embedding", f"{LAYERS}.0", f"{LAYERS}.1", "logits"]
    table = package.read("decoder.embedding.input_embedding.weights")
    assert np.array_equal(stages["decoder.embedding"], table[ids].astype(np.float64))
    assert {x.shape for name, x in stages.items() if name != "logits"} == {(3, 64)}
    assert np.array_equal(stages["logits"], reference_logits(package, ids))


def test_a_stage_is_read_when_its_turn_comes() -> None:
    """So that no more than one layer need be in memory."""
    package = Package.open(GOLDEN / "llama/engine")
    read: list[str] = []

    def noting(name: str):
        def change(values: np.ndarray) -> np.ndarray:
            read.append(name)
            return values

        return change

    source = Altered(package, package.config, {name: noting(name) for name in package.tensors()})
    seen = 0
    for stage, _ in reference_stages(source, [0, 1]):
        mine = "decoder." if stage == "logits" else stage
        assert all(name.startswith(mine) for name in read[seen:])
        seen = len(read)
    assert len(read) == len(set(read)) == len(package.tensors())


def test_ids_are_checked() -> None:
    package = Package.open(GOLDEN / "llama/engine")
    with pytest.raises(RequestError, match="token id 400 at place 1"):
        reference_logits(package, [0, 400])
