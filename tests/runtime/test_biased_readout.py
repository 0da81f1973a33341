"""A readout with biases, beside the same one without."""

from collections.abc import Callable

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend
from tensor_sources import Random, edited

from masu.converter.assemble import biased_readout, embedding, retied
from masu.runtime.backends import backend_names
from masu.runtime.model import load_model
from masu.runtime.reference import reference_logits
from masu.specs.package import Package

IDS = [3, 1, 4, 1, 5]
BIASES = "decoder.embedding.readout_biases"


def sources(scale: float | None, cap: float | None, tied: bool) -> tuple[Random, Random]:
    """A model of random numbers with such biases, and the same without scale, cap and biases."""

    def edit(tables: dict) -> Callable[[dict], None]:
        return lambda decoder: decoder.update(embedding_config=tables)

    kind = "TiedEmbeddingConfig" if tied else "UntiedEmbeddingConfig"
    plain = {"type": kind, "input_scale": 2.0, "logit_soft_cap": None, "logit_scale": None}
    tables = {**plain, "logit_soft_cap": cap, "logit_scale": scale}
    config = Package.open(GOLDEN / "llama/engine").config
    biased = edited(config, edit({"type": "BiasedReadoutConfig", "tables_config": tables}))
    return Random(biased), Random(edited(config, edit(plain)))


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize(
    ("scale", "cap", "tied"), [(None, None, False), (0.5, 3.0, False), (0.5, 3.0, True)]
)
def test_biases_come_before_scale_and_cap(
    backend: str, scale: float | None, cap: float | None, tied: bool
) -> None:
    biased, plain = sources(scale, cap, tied)
    shared = shared_backend(backend)
    found, logits = (
        load_model(source, dtype="float32", backend=shared).logits(IDS)
        for source in (biased, plain)
    )
    wanted = (logits + biased.read(BIASES)) * (scale or 1.0)
    wanted = wanted if cap is None else cap * np.tanh(wanted / cap)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(reference_logits(biased, IDS), found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_a_settled_tie_keeps_the_biases_and_the_numbers(tied: bool) -> None:
    numbers = {"input_scale": 2.0, "logit_soft_cap": 3.0, "logit_scale": 0.5}
    before, after = (embedding(tied=each, **numbers) for each in (not tied, tied))
    assert retied(before, tied) == after
    assert retied(biased_readout(before), tied) == biased_readout(after)
