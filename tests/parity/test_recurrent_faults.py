"""Planted faults in recurrent mixers: each takes the logits of a golden model far away.

The least of them must be a hundred times what the golden tests let pass (3e-4 at most).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import golden_spec
from golden import ENGINE_CASES, GOLDEN
from shared_backends import shared_backend
from tensor_sources import Altered, Change, edited, layers_of

import masu.pipeline
from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.blocks import delta_net, general_mamba2, state_space
from masu.runtime.loader import TensorSource
from masu.runtime.model import load_model
from masu.specs.package import Package

LEAST = 3e-2
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recurrent")


@cache
def package(case: str, folder: Path) -> Package:
    """What lalamo wrote, or for families it has not, what is converted."""
    if case in ENGINE_CASES:
        return Package.open(GOLDEN / case / "engine")
    source, out = GOLDEN / case / "hf", folder / case
    masu.pipeline.convert(source, out, spec=golden_spec(case), dtype="float32", verify=False)
    return Package.open(out)


def distance(case: str, source: TensorSource) -> float:
    """The largest difference of the 80 rows, as a share of the logits' standard deviation."""
    golden = np.load(GOLDEN / case / "reference.npz")
    model = load_model(source, dtype="float64", backend=shared_backend("numpy"))
    with np.errstate(all="ignore"):  # a growing state may pass every bound
        found, wanted = model.logits(golden["input_ids_1"]), golden["logits_1"]
        return float(np.abs(found - wanted).max() / wanted.std())


def changed(case: str, folder: Path, suffix: str, change: Change) -> TensorSource:
    """The package with every tensor of this ending changed on its way out."""
    whole = package(case, folder)
    names = [name for name in whole.tensors() if name.endswith(suffix)]
    assert names
    return Altered(whole, whole.config, dict.fromkeys(names, change))


def zeroed(values: np.ndarray) -> np.ndarray:
    return np.zeros_like(values)


def taps_reversed(weights: np.ndarray) -> np.ndarray:
    return weights[:, ::-1].copy()


def gates_exchanged(rows: np.ndarray) -> np.ndarray:
    """B and C of a short convolution: before it and after it."""
    before, after, x = np.split(rows, 3)
    return np.concatenate([after, before, x])


CASES = ["lfm2", "qwen3_5", "llamba", "falcon_h1", "granitemoehybrid", "nemotron_h"]


@pytest.mark.parametrize("case", CASES)
def test_without_a_fault(case: str, folder: Path) -> None:
    assert distance(case, package(case, folder)) < LEAST / 100


@pytest.mark.parametrize("case", CASES)
def test_taps_reversed(case: str, folder: Path) -> None:
    assert not distance(case, changed(case, folder, "conv.weights", taps_reversed)) < LEAST


@pytest.mark.parametrize(
    ("case", "suffix", "change"),
    [
        ("lfm2", "mixer.in_projection.weights.weights", gates_exchanged),
        ("qwen3_5", "mixer.dt_bias", zeroed),
        ("llamba", "mixer.skip_connection_weight", zeroed),
        ("llamba", "mixer.gate_bias", zeroed),
        ("llamba", "mixer.conv.biases", zeroed),
        *[
            (case, name, zeroed)
            for case in ("falcon_h1", "granitemoehybrid", "nemotron_h")
            for name in ("dt_bias", "a_log", "skip_connection_weight", "conv.biases")
        ],
    ],
)
def test_fault_in_an_array(case: str, suffix: str, change: Change, folder: Path) -> None:
    assert not distance(case, changed(case, folder, suffix, change)) < LEAST


def in_general_mamba2(**fields: object) -> Callable[[dict], None]:
    def edit(decoder: dict) -> None:
        for layer in layers_of(decoder):
            mixer = layer["mixer_config"] or {}
            mixer = mixer.get("mamba2_config", mixer)
            if mixer.get("type") == "GeneralMamba2Config":
                mixer.update(fields)

    return edit


@pytest.mark.parametrize(
    ("case", "edit"),
    [
        ("falcon_h1", in_general_mamba2(norm_before_gate=True)),
        ("granitemoehybrid", in_general_mamba2(norm_before_gate=True)),
        ("nemotron_h", in_general_mamba2(norm_before_gate=True)),
        ("nemotron_h", in_general_mamba2(step_limits=[None, 0.5])),
        ("nemotron_h", in_general_mamba2(step_limits=[0.5, None])),
        ("nemotron_h", in_general_mamba2(activation={"type": "Identity"})),
    ],
)
def test_fault_in_the_config(case: str, edit: Callable[[dict], None], folder: Path) -> None:
    whole = package(case, folder)
    assert not distance(case, Altered(whole, edited(whole.config, edit))) < LEAST


def recur_with(**exchanged: Callable[[Any], Any]) -> Patch:
    """The recurrence with some of its arguments changed."""
    real = NumpyBackend.recur
    names = ("queries", "keys", "values", "log_decay", "beta", "state")

    def recur(self: NumpyBackend, *arrays: Any) -> Any:
        given: dict[str, Any] = dict(zip(names, arrays, strict=True))
        given |= {name: change(given[name]) for name, change in exchanged.items()}
        return real(self, *given.values())

    return lambda patch: patch.setattr(NumpyBackend, "recur", recur)


def without_unit_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delta_net, "_unit", lambda backend, x: x)


def norm_over_all_groups(patch: pytest.MonkeyPatch) -> None:
    real = general_mamba2._normed

    def normed(backend: Any, config: Any, *rest: Any) -> Any:
        return real(backend, config.model_copy(update={"num_groups": 1}), *rest)

    patch.setattr(general_mamba2, "_normed", normed)


def input_not_scaled(patch: pytest.MonkeyPatch) -> None:
    real = state_space.scan

    def scan(backend: Any, inputs: Any, values: Any, *rest: Any) -> Any:
        return real(backend, inputs, inputs.x, *rest)

    patch.setattr(state_space, "scan", scan)


NEXT_GROUP = {"keys": lambda keys: np.roll(keys, 1, axis=1)}


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ("qwen3_5", without_unit_keys),
        ("qwen3_5", recur_with(beta=np.ones_like)),
        ("qwen3_5", recur_with(log_decay=lambda decay: -decay)),
        ("qwen3_5", recur_with(log_decay=np.zeros_like)),
        ("qwen3_5", recur_with(queries=lambda queries: queries * 4)),
        ("qwen3_5", recur_with(**NEXT_GROUP)),
        ("llamba", recur_with(log_decay=lambda decay: -decay)),
        ("llamba", recur_with(log_decay=np.zeros_like)),
        ("llamba", recur_with(**NEXT_GROUP)),
        ("granitemoehybrid", recur_with(log_decay=lambda decay: -decay)),
        ("granitemoehybrid", input_not_scaled),
        ("falcon_h1", input_not_scaled),
        ("nemotron_h", input_not_scaled),
        ("nemotron_h", norm_over_all_groups),
        ("nemotron_h", recur_with(**NEXT_GROUP)),
    ],
)
def test_fault_in_the_code(
    case: str, fault: Patch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert not distance(case, package(case, folder)) < LEAST
