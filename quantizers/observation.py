"""What the matrices of a layer see: sums over their inputs, gathered while the layer runs."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from masu.runtime.backend import Array
from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.weights import Weight


class ObservingBackend(NumpyBackend):
    """Plain arrays in float32; of watched matrices `[out, in]`, the second moments of the inputs.

    A stack of experts is not observed: each token passes a few of them only.
    """

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._held: list[Weight] = []
        self._moments: dict[str, np.ndarray] = {}
        self._counts: dict[str, int] = {}
        self._watched: Collection[str] = ()
        self._worth: Mapping[str, np.ndarray] = {}

    def watch(self, paths: Collection[str], worth: Mapping[str, np.ndarray] | None = None) -> None:
        """Forget everything, and observe these matrices from now on.

        Args:
            worth: of matrices whose inputs do not all count alike, what each counts, `[inputs]` in
                the order in which they come.
        """
        self._watched, self._worth = paths, worth or {}
        self._paths, self._held, self._moments, self._counts = {}, [], {}, {}

    def on_matrix(self, path: str, held: Weight) -> None:
        """For the loader."""
        if path in self._watched:
            self._paths[id(held)] = path
            self._held.append(held)  # or another one could get its identity

    def moments(self) -> dict[str, np.ndarray]:
        """Mean of `x x^T` over all inputs: float32 `[in, in]`, by matrix; of those that ran."""
        return {path: total / self._counts[path] for path, total in self._moments.items()}

    def readout(self, x: Array, weight: Weight) -> Any:
        path = self._paths.get(id(weight))
        if path is not None:
            rows = np.asarray(x, np.float32).reshape(-1, x.shape[-1])
            before = self._counts.get(path, 0)
            worth = self._worth.get(path)
            counted = rows if worth is None else rows * worth[before : before + len(rows), None]
            self._moments[path] = self._moments.get(path, np.float32(0)) + counted.T @ rows
            self._counts[path] = before + len(rows)
        return super().readout(x, weight)
