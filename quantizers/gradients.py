"""What the outputs of matrices are worth: gradients of the model's predictions, layer by layer.

The KL divergence of predictions has no slope at the model itself; its curvature is the mean of
`g g^T` over the gradients g of `-ln p(token)`, with tokens drawn from the model's own predictions
(the Fisher information). In memory are one layer and the streams of all texts before every layer.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from masu.quantizers.stream_source import StreamSource
from masu.runtime.backend import Array
from masu.runtime.backends.jax import JaxBackend
from masu.runtime.blocks.decoder import ExitConfig, leave, load_exit
from masu.runtime.loader import Loader
from masu.runtime.reference import Stages
from masu.runtime.weights import Weight
from masu.specs.blocks.decoder import DecoderConfig

FLOAT32 = np.dtype(np.float32)
SEED = 0
"""Of the tokens drawn for the first text; each other one has the next."""

Call: TypeAlias = tuple[str, tuple[int, ...]]
"""A product: the path of its matrix, and the shape of what it puts out."""


class Worth(NamedTuple):
    """Of one matrix.

    Attributes:
        inputs: float32 `[tokens]`: the squares of the gradients of each token's output, mean 1.
        outputs: float32 `[out, out]`: mean of `g g^T`, mean of the diagonal 1.
    """

    inputs: np.ndarray
    outputs: np.ndarray

    @classmethod
    def of(cls, gradients: np.ndarray) -> "Worth | None":
        """From gradients `[tokens, out]`; None where all are zero."""
        squares = np.square(gradients).sum(-1)
        if not (size := float(squares.mean())) > 0:
            return None
        outputs = gradients.T @ gradients * (gradients.shape[1] / (size * len(gradients)))
        return cls(squares / np.float32(size), outputs.astype(np.float32))


class Worths:
    """Those of all matrices, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, path: str, worth: Worth) -> None:
        np.save(self._folder / f"{path}.inputs.npy", worth.inputs)
        np.save(self._folder / f"{path}.outputs.npy", worth.outputs)

    def inputs(self, paths: Collection[str]) -> dict[str, np.ndarray]:
        """Of the matrices among these that have some."""
        files = {path: self._folder / f"{path}.inputs.npy" for path in paths}
        return {path: np.load(file) for path, file in files.items() if file.exists()}

    def outputs(self, path: str) -> np.ndarray | None:
        file = self._folder / f"{path}.outputs.npy"
        return np.load(file) if file.exists() else None


class ProbingBackend(JaxBackend):
    """Adds a probe to what each watched matrix puts out: its gradient is that of the output."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[str, Weight]] = []
        self.calls: list[Call] = []
        self.probes: Sequence[Array] | None = None

    def on_matrix(self, path: str, held: Weight) -> None:
        """For the loader."""
        self.held.append((path, held))

    def readout(self, x: Array, weight: Weight) -> Array:
        out = super().readout(x, weight)
        path = next((path for path, held in self.held if held is weight), None)
        if path is None:
            return out
        self.calls.append((path, out.shape))
        return out if self.probes is None else out + self.probes[len(self.calls) - 1]


def find_worths(
    source: StreamSource, texts: Sequence[np.ndarray], wanted: Collection[str], folder: Path
) -> Worths:
    """Those of the wanted matrices `[out, in]` of all layers, kept in `folder`."""
    backend, found = ProbingBackend(), Worths(folder)
    network, root = source.config.network, source.config.ROOT
    assert isinstance(network, DecoderConfig)  # recipes with calibrated methods read text
    loader = Loader(source, backend, FLOAT32, on_matrix=backend.on_matrix).under(root)
    walk = _Walk(network, loader, backend, texts)
    count = len(network.transformer_config.layer_configs)
    for index in range(count):
        walk.forward(index)
    walk.turn()
    for index in reversed(range(count)):
        for path, gradients in walk.backward(index).items():
            if path in wanted and (worth := Worth.of(gradients)) is not None:
                found.add(path, worth)
    return found


class _Walk:
    """All texts through the layers, and their gradients back."""

    def __init__(
        self,
        network: DecoderConfig,
        loader: Loader,
        backend: ProbingBackend,
        texts: Sequence[np.ndarray],
    ) -> None:
        self._network, self._loader, self._backend = network, loader, backend
        self._runs = [Stages(network, loader, backend, len(ids), FLOAT32) for ids in texts]
        entry = self._runs[0].entry()
        pairs = zip(self._runs, texts, strict=True)
        self._entered = [run.enter(ids.astype(np.int32), entry) for run, ids in pairs]
        self._streams = [[entered.stream] for entered in self._entered]
        self._calls: list[list[list[Call]]] = []
        self._slopes: list[Array] = []

    def forward(self, index: int) -> None:
        """One layer; what stands before it is kept."""
        parameters = self._parameters(index)
        calls: list[list[Call]] = []
        for run, entered, stream in zip(self._runs, self._entered, self._streams, strict=True):
            self._backend.calls = []
            stream.append(run.layer(index, parameters, stream[-1], entered))
            calls.append(self._backend.calls)
        self._calls.append(calls)

    def turn(self) -> None:
        """From the predictions to the gradients of what the last layer has left."""
        self._backend.held = []
        parameters = load_exit(self._network, self._loader)
        config = ExitConfig.of(self._network)

        def exit_(x: Array) -> Array:
            return leave(self._backend, config, parameters, x)

        for seed, stream in enumerate(self._streams, SEED):
            x = stream.pop()
            slope = self._backend.array(surprise(np.array(exit_(x)), seed))
            self._slopes.append(self._backend.pulled_back(exit_, (x,), slope)[0])

    def backward(self, index: int) -> dict[str, np.ndarray]:
        """One layer; the gradients `[tokens, out]` of what each of its matrices puts out."""
        parameters, calls = self._parameters(index), self._calls[index]
        found: dict[str, list[np.ndarray]] = {}
        for place, stream in enumerate(self._streams):
            probes = [self._backend.zeros(shape, FLOAT32) for _, shape in calls[place]]

            def through(x: Array, probes: Sequence[Array], place: int = place) -> Array:
                self._backend.calls, self._backend.probes = [], probes
                run, entered = self._runs[place], self._entered[place]
                out = run.layer(index, parameters, x, entered, keep=False)
                self._backend.probes = None
                return out

            given, slope = (stream.pop(), probes), self._slopes[place]
            self._slopes[place], slopes = self._backend.pulled_back(through, given, slope)
            for (path, shape), each in zip(calls[place], slopes, strict=True):
                found.setdefault(path, []).append(np.asarray(each).reshape(-1, shape[-1]))
        return {path: np.concatenate(parts) for path, parts in found.items()}

    def _parameters(self, index: int) -> Any:
        self._backend.held = []
        return self._runs[0].parameters(index)


def surprise(logits: np.ndarray, seed: int) -> np.ndarray:
    """The gradient of `-ln p(token)` by logits `[tokens, vocab]`, the tokens drawn from p."""
    slope = np.exp(logits - logits.max(-1, keepdims=True))
    slope /= slope.sum(-1, keepdims=True)
    for row, drawn in zip(slope, np.random.default_rng(seed).random(len(slope)), strict=True):
        reached = np.cumsum(row, dtype=np.float64)
        row[np.searchsorted(reached[:-1], drawn * reached[-1], side="right")] -= 1
    return slope
