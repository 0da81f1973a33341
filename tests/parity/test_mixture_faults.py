"""Faults in the table of a mixture of experts: each takes the logits far from transformers'.

One family for each layout: experts one by one (Mixtral), packed (Granite-MoE), packed and
transposed with alternating rows (GPT-OSS). Their tiny matrices are square, so that a transposed
one keeps its shape.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from checkpoints import random_checkpoint
from shared_backends import shared_backend
from tensor_sources import Altered

import masu.converter.convert
import masu.pipeline
from masu.converter.checkpoint import SourceTensor
from masu.converter.families import load_family
from masu.converter.table import Rows, Table, Target, Unused
from masu.runtime.loader import TensorSource
from masu.runtime.model import load_model
from masu.specs.package import Package
from masu.specs.tensors import Shape

LAYOUTS = ("mixtral", "granitemoe", "gpt_oss")
IDS = np.random.default_rng(1).integers(0, 300, 40)
LEAST = 1e-2
"""A hundred times what the parity test lets pass, in standard deviations of the logits."""


@cache
def reference(name: str, folder: Path) -> tuple[Path, np.ndarray]:
    import torch

    source = folder / name
    model = random_checkpoint(load_family(name).tiny, source)
    with torch.no_grad():
        return source, model(torch.tensor(IDS)[None], use_cache=False).logits[0].numpy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixtures")


def turned(tensor: SourceTensor) -> SourceTensor:
    """Rows for columns, in every expert."""
    *lead, rows, columns = tensor.shape
    assert rows == columns

    def read(start: int, stop: int) -> np.ndarray:
        whole = tensor.read(0, tensor.shape[0])
        return np.ascontiguousarray(whole.swapaxes(-1, -2))[start:stop]

    return dataclasses.replace(tensor, shape=(*lead, rows, columns), read=read, raw=None)


def experts_transposed(target: Target) -> Target:
    view = target.view_of(0)
    seen = turned if view is None else lambda tensor: turned(view(tensor))
    return dataclasses.replace(target, view=seen)


def rows_rolled(target: Target) -> Target:
    def rolled(shape: Shape) -> Rows:
        return ((1, shape[0]), (0, 1))

    return dataclasses.replace(target, rows=rolled)


FAULTS: dict[str, tuple[str, Callable[[Target], Target]]] = {
    "experts transposed": (".experts.down_projection.weights", experts_transposed),
    "router rows permuted": (".router.weights", rows_rolled),
    "rows of the experts shifted": (".experts.down_projection.weights", rows_rolled),
}


def faulty(table: Table, suffix: str, change: Callable[[Target], Target]) -> Table:
    def targets() -> Iterator[tuple[str, Target | Unused]]:
        for source, target in table.items():
            found = Target(target) if isinstance(target, str) else target
            if isinstance(found, Target) and found.name.endswith(suffix):
                found = change(found)
            yield source, found

    return dict(targets())


def converted(name: str, folder: Path, out: Path) -> Package:
    source, _ = reference(name, folder)
    masu.pipeline.convert(source, out, dtype="float32", verify=False)
    return Package.open(out)


def distance(package: TensorSource, name: str, folder: Path) -> float:
    _, wanted = reference(name, folder)
    model = load_model(package, dtype="float32", backend=shared_backend("numpy"))
    return float(np.abs(model.logits(IDS) - wanted).max() / wanted.std())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_fault_in_the_table_is_caught(
    name: str, fault: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, (suffix, change) = load_family(name), FAULTS[fault]
    wrong = dataclasses.replace(
        real, weights=lambda config: faulty(real.weights(config), suffix, change)
    )
    monkeypatch.setattr(masu.converter.convert, "load_family", lambda _: wrong)
    assert distance(converted(name, folder, tmp_path / "out"), name, folder) > LEAST


def without_the_last(experts: np.ndarray) -> np.ndarray:
    return np.concatenate([experts[:-1], np.zeros_like(experts[-1:])])


@pytest.mark.parametrize("name", LAYOUTS)
def test_one_expert_missing_is_caught(name: str, folder: Path, tmp_path: Path) -> None:
    package = converted(name, folder, tmp_path / "out")
    matrix = "experts.down_projection.weights.weights"
    downs = [tensor for tensor in package.tensors() if tensor.endswith(matrix)]
    assert downs
    faulty = Altered(package, package.config, dict.fromkeys(downs, without_the_last))
    assert distance(faulty, name, folder) > LEAST


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_a_fault(name: str, folder: Path, tmp_path: Path) -> None:
    assert distance(converted(name, folder, tmp_path / "out"), name, folder) < LEAST / 100
