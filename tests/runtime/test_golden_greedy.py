"""Generation: greedily what transformers wrote, and the same by a seed.

Where the two best logits are nearer to each other than twice the bound on either, both of them are
right; from there on the texts may differ, and are not compared.
"""

import numpy as np
import pytest
from golden import ENGINE_CASES, GOLDEN
from golden_sources import expected_source, logits_bound
from shared_backends import shared_backend

from masu.runtime.backends import why_not
from masu.runtime.generate import Ending, generate
from masu.runtime.model import load_model
from masu.runtime.sampling import Sampling
from masu.specs.model import LanguageModelConfig
from masu.specs.package import Package

GREEDY, STEPS = Sampling(temperature=0), 16


def generates(case: str) -> bool:
    return isinstance(Package.open(GOLDEN / case / "engine").config, LanguageModelConfig)


GENERATING = [case for case in ENGINE_CASES if generates(case)]


def comparable(case: str, prompt: int) -> int:
    """How many steps come before the first whose margin allows two answers."""
    golden = np.load(GOLDEN / case / "reference.npz")
    least = 2 * logits_bound(case) * golden[f"logits_{prompt}"].std()
    close = np.flatnonzero(golden[f"greedy_margin_{prompt}"] <= least)
    return int(close[0]) if len(close) else STEPS


HAS_KERNELS = why_not("native") is None

BACKENDS = [
    pytest.param("native", marks=[] if HAS_KERNELS else pytest.mark.nightly),
    pytest.param("jax", marks=pytest.mark.nightly if HAS_KERNELS else []),
    "mlx",
]
"""The compiled backend that is the default here; the other one is for nights."""


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("case", GENERATING)
def test_greedy_continuation(case: str, name: str) -> None:
    """The prompt in one step, then token by token."""
    model = load_model(expected_source(case), dtype="float32", backend=shared_backend(name))
    golden = np.load(GOLDEN / case / "reference.npz")
    for prompt in (0, 1):
        steps = comparable(case, prompt)
        ids = golden[f"input_ids_{prompt}"].tolist()
        tokens = generate(model, ids, GREEDY, Ending(max_tokens=STEPS))
        found = [token.id for token in tokens]
        assert found[:steps] == golden[f"greedy_{prompt}"][:steps].tolist()


def test_nearly_all_steps_are_compared() -> None:
    compared = [comparable(case, prompt) for case in GENERATING for prompt in (0, 1)]
    assert len(GENERATING) == len(ENGINE_CASES) - 1
    assert sum(compared) > 0.97 * STEPS * len(compared)
    assert min(compared) >= STEPS // 2


def test_the_same_seed_writes_the_same() -> None:
    package = Package.open(GOLDEN / "llama" / "engine")
    model = load_model(package, backend=shared_backend("jax"))
    prompt = np.load(GOLDEN / "llama" / "reference.npz")["input_ids_0"].tolist()

    def written(seed: int) -> list[int]:
        sampling = Sampling(temperature=1.2, seed=seed)
        return [token.id for token in generate(model, prompt, sampling, Ending(max_tokens=24))]

    assert written(1) == written(1)
    assert written(1) != written(2)
