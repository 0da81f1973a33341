"""What rounding each matrix alone costs: the change of the model's predictions, measured.

All matrices of a layer are tried one by one, and every stream that this makes goes on through the
layers above together, so that each layer is read once. In memory are one layer and the streams.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass

import numpy as np

from masu.quantizers.calibration import OnLayer
from masu.quantizers.divergence import log_softmax
from masu.quantizers.plan import Quantisation
from masu.quantizers.stream_source import StreamSource
from masu.runtime.backend import Array
from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.blocks.decoder import Entered
from masu.runtime.loader import Loader
from masu.runtime.reference import Stages
from masu.specs.dtypes import as_float32
from masu.specs.stream import PlannedTensor

TOKENS = 64
"""Positions that are compared; the sequence is this long."""


@dataclass
class _Run:
    """One stream: of the model as it is (no matrix), or with one matrix rounded."""

    matrix: str | None
    stages: Stages
    entered: Entered
    x: Array

    def forked(self, matrix: str) -> "_Run":
        """A run of its own from here on."""
        stages = copy(self.stages)
        stages.states = list(self.stages.states)
        return _Run(matrix, stages, self.entered, self.x)

    def through(self, index: int, parameters: object) -> None:
        self.x = self.stages.layer(index, parameters, self.x, self.entered)


def sensitivities(
    plan: Quantisation, ids: np.ndarray, on_layer: OnLayer | None = None
) -> dict[str, float]:
    """Mean KL divergence, in nats, that rounding each quantised matrix alone causes.

    Args:
        ids: a text; its first TOKENS tokens are run.
    """
    source = StreamSource.of(plan.config, plan.originals)
    rounded = {t.name: t for t in plan.stream if t.decoded is not None}
    runs = list(_start(plan, source, rounded, ids[:TOKENS]))
    count = len(plan.config.network.transformer_config.layer_configs)
    for index in range(count):
        own = f"{plan.config.ROOT}.transformer.layers.{index}."
        forks = [runs[0].forked(name) for name in rounded if name.startswith(own)]
        for fork in forks:
            _swap(source, rounded, fork.matrix)
            fork.through(index, fork.stages.parameters(index))
        _swap(source, rounded, None)
        parameters = runs[0].stages.parameters(index)
        for run in runs:
            run.through(index, parameters)
        runs += forks
        if on_layer is not None:
            on_layer(index + 1, count)
    return _divergences(source, rounded, runs)


def _start(
    plan: Quantisation,
    source: StreamSource,
    rounded: Mapping[str, PlannedTensor],
    ids: np.ndarray,
) -> Iterator[_Run]:
    """The model as it is first, then with each table rounded that stands before the layers."""
    backend, config, root = NumpyBackend(), plan.config.network, plan.config.ROOT
    layers = f"{root}.transformer.layers."
    entering = [name for name in rounded if not name.startswith(layers)]
    for name in (None, *entering):
        _swap(source, rounded, name)
        loader = Loader(source, backend, np.dtype(np.float32)).under(root)
        stages = Stages(config, loader, backend, len(ids), np.dtype(np.float32))
        entered = stages.enter(ids)
        yield _Run(name, stages, entered, entered.stream)
    _swap(source, rounded, None)


def _swap(source: StreamSource, rounded: Mapping[str, PlannedTensor], name: str | None) -> None:
    """The source with that matrix rounded, and no other."""
    source.replaced.clear()
    if name is not None:
        tensor = rounded[name]
        assert tensor.decoded is not None
        source.replaced[name] = as_float32(tensor.decoded(0, tensor.shape[0]))


def _divergences(
    source: StreamSource, rounded: Mapping[str, PlannedTensor], runs: list[_Run]
) -> dict[str, float]:
    expected = log_softmax(runs[0].stages.leave(runs[0].x), "the model as it is")
    found: dict[str, float] = {}
    for run in runs[1:]:
        assert run.matrix is not None
        is_table = ".embedding." in run.matrix
        _swap(source, rounded, run.matrix if is_table else None)
        actual = log_softmax(run.stages.leave(run.x), f"the model with {run.matrix} rounded")
        found[run.matrix] = float((np.exp(expected) * (expected - actual)).sum(-1).mean())
    return found
