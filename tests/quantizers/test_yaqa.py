"""Two-sided rounding: gradients are those of the predictions, codes those of the formula."""

from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN

from masu.quantisation import quantize
from masu.quantizers.gradients import ProbingBackend, Worth, _Walk, surprise
from masu.quantizers.methods import yaqa
from masu.quantizers.methods.gptq import METHOD as GPTQ
from masu.quantizers.methods.gptq import feedback_of
from masu.quantizers.methods.yaqa import METHOD as YAQA
from masu.quantizers.stream_source import StreamSource
from masu.runtime.loader import Loader
from masu.specs.formats.integer import IntSpec
from masu.specs.model import LanguageModelConfig
from masu.specs.package import Package
from masu.specs.package_stream import stream_of
from masu.specs.recipe import Recipe, Rule

TIED = GOLDEN / "llama-tied" / "engine"
FLOAT32 = np.dtype(np.float32)
SPEC = IntSpec(type="IntSpec", bits=4, group_size=8, is_symmetric=False, layout="output_input")


def moments(size: int, seed: int) -> np.ndarray:
    """Of channels that depend on each other."""
    random = np.random.default_rng(seed)
    mixed = random.normal(size=(4 * size, size)) @ random.normal(size=(size, size))
    return (mixed.T @ mixed / len(mixed)).astype(np.float32)


def case(rows: int = 20, columns: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    return values, moments(columns, 1), moments(rows, 2)


def decoded(method: object, values: np.ndarray, *sides: np.ndarray) -> np.ndarray:
    inputs, *outputs = sides
    arrays = method.encode_calibrated(SPEC, values, inputs, "F32", "group_major", *outputs)  # type: ignore[attr-defined]
    return SPEC.decode(arrays, values.shape, "group_major", np.float32)


def one_by_one(values: np.ndarray, inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Codes by the formula: what an element takes of every error above it and before it."""
    parameters = SPEC.fit(SPEC.grouped(values), "F32")
    rows, columns = (np.argsort(-np.diag(side), kind="stable") for side in (outputs, inputs))
    across, down = (
        feedback_of(side[np.ix_(order, order)])  # with ones on the diagonal
        for side, order in ((inputs, columns), (outputs, rows))
    )
    errors, codes = np.zeros(values.shape), np.zeros(values.shape, np.uint8)
    for i, row in enumerate(rows):
        for k, column in enumerate(columns):
            taken = down[: i + 1, i] @ errors[: i + 1, : k + 1] @ across[: k + 1, k]
            group = column // SPEC.group_size
            own = type(parameters)(*(field[row, group] for field in parameters))
            wanted = np.array([values[row, column] + taken], np.float32)
            codes[row, column] = SPEC.codes(wanted, own)[0]
            errors[i, k] = values[row, column] - SPEC.values(codes[row, column], own)[0]
    return codes


@pytest.mark.parametrize("rows_together", [4, 128])
def test_codes_are_those_of_the_formula(
    rows_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For blocks of rows of any size; float32 may decide a near tie otherwise."""
    monkeypatch.setattr(yaqa, "ROWS", rows_together)
    values, inputs, outputs = case()
    parameters = SPEC.fit(SPEC.grouped(values), "F32")
    found = YAQA.rounded(SPEC, values, parameters, (inputs, outputs))
    assert (found == one_by_one(values, inputs, outputs)).mean() > 0.99


def test_the_error_that_counts_is_smaller_than_that_of_one_sided_rounding() -> None:
    values, inputs, outputs = case(64, 64)

    def cost(method: object) -> float:
        error = decoded(method, values, inputs, outputs) - values
        return float(np.trace(outputs @ error @ inputs @ error.T))

    assert cost(YAQA) < 0.8 * cost(GPTQ)


def test_without_gradients_it_is_gptq() -> None:
    values, inputs, _ = case()
    assert np.array_equal(decoded(YAQA, values, inputs), decoded(GPTQ, values, inputs))
    even = decoded(YAQA, values, inputs, np.eye(len(values), dtype=np.float32))
    assert (even == decoded(GPTQ, values, inputs)).mean() > 0.99
    assert Worth.of(np.zeros((3, 2), np.float32)) is None


def test_surprise_is_the_slope_of_what_was_drawn() -> None:
    logits = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    slope = surprise(logits.copy(), seed=3)
    assert np.abs(slope.sum(-1)).max() < 1e-6
    assert ((slope < 0).sum(-1) == 1).all()
    assert np.array_equal(slope, surprise(logits.copy(), seed=3))
    certain = surprise(np.where(np.arange(7) == 4, 100.0, 0.0).astype(np.float32)[None], seed=0)
    assert np.abs(certain).max() < 1e-6


@pytest.mark.slow
def test_gradients_are_the_slopes_of_the_predictions() -> None:
    """Against differences: each output of the first layer moved a little either way."""
    package, backend = Package.open(TIED), ProbingBackend()
    assert isinstance(package.config, LanguageModelConfig)
    source = StreamSource.of(package.config, stream_of(package))
    loader = Loader(source, backend, FLOAT32, on_matrix=backend.on_matrix)
    network, ids = package.config.network, np.arange(12) * 7 % 300
    count = len(network.transformer_config.layer_configs)

    below = loader.under(package.config.ROOT)

    def walked() -> _Walk:
        return _Walk(network, below, backend, [ids])

    walk = walked()
    for index in range(count):
        walk.forward(index)
    last = np.array(walk._streams[0][-1])
    walk.turn()
    slope = np.array(walk._slopes[0])
    found = [walk.backward(index) for index in reversed(range(count))][-1]
    assert len(found) == 4
    for path, gradient in [*found.items()][::3]:
        step = np.random.default_rng(1).normal(size=gradient.shape).astype(np.float32)
        ends = [_moved(walked(), backend, path, sign * 3e-3 * step) for sign in (1, -1)]
        assert np.abs(ends[0] - last).max() > 3e-5
        change = float((slope * (ends[0] - ends[1])).sum()) / 6e-3
        assert change == pytest.approx(float((gradient * step).sum()), rel=0.03, abs=3e-3)


def _moved(walk: _Walk, backend: ProbingBackend, path: str, by: np.ndarray) -> np.ndarray:
    """What the last layer leaves where one matrix of the first puts out something else."""
    network = walk._network.transformer_config
    for index in range(len(network.layer_configs)):
        if index == 0:
            walk.forward(0)
            names = [name for name, _ in walk._calls[0][0]]
            shapes = [shape for _, shape in walk._calls[0][0]]
            walk._streams[0].pop()
            walk._calls.pop()
            walk._runs[0].states.clear()
            backend.probes = [
                backend.array(by if name == path else np.zeros(shape, np.float32))
                for name, shape in zip(names, shapes, strict=True)
            ]
        walk.forward(index)
        backend.probes = None
    return np.array(walk._streams[0][-1])


@pytest.mark.slow
def test_a_package_is_written_by_it(tmp_path: Path) -> None:
    int4 = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}
    text = tmp_path / "text.txt"
    text.write_text("The box holds what was measured, and when it is full nothing is left. " * 4)
    stored = []
    for method in ("yaqa", "gptq"):
        rules = (Rule(match="*", format=int4, method=method), Rule(match="embedding", format=int4))
        recipe = Recipe(name="own", description="", rules=rules)
        quantize(TIED, tmp_path / method, recipe, calibration=text)
        package = Package.open(tmp_path / method)
        name = "decoder.transformer.layers.0.mlp.down_projection.weights.weights"
        stored.append(package.read(name).tobytes())
    assert stored[0] != stored[1]
