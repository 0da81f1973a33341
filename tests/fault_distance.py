"""How far a planted fault takes a random checkpoint's logits from those of transformers."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import random_checkpoint
from shared_backends import shared_backend

import masu.pipeline
from masu.runtime.loader import TensorSource
from masu.runtime.model import load_model
from masu.specs.package import Package

LEAST = 1e-2
"""In standard deviations of the logits: a hundred times what `test_parity.py` lets pass."""


class Faulted:
    """One model: its checkpoint, what transformers makes of it, and its package without a fault."""

    def __init__(self, config: Mapping[str, Any], ids: np.ndarray, folder: Path) -> None:
        self._config, self._ids, self._folder = dict(config), ids, folder

    @cached_property
    def reference(self) -> np.ndarray:
        """The logits of transformers for a random checkpoint, which is saved."""
        import torch

        model = random_checkpoint(self._config, self._folder / "hf")
        with torch.no_grad():
            return model(torch.tensor(self._ids)[None], use_cache=False).logits[0].numpy()

    def converted(self, out: Path) -> Package:
        assert self.reference.size
        masu.pipeline.convert(self._folder / "hf", out, dtype="float32", verify=False)
        return Package.open(out)

    @cached_property
    def package(self) -> Package:
        return self.converted(self._folder / "package")

    def distance(self, source: TensorSource) -> float:
        """Largest difference of a logit from the reference, in standard deviations of all."""
        wanted = self.reference
        found = load_model(source, dtype="float32", backend=shared_backend("numpy"))
        return float(np.abs(found.logits(self._ids) - wanted).max() / wanted.std())


class Models:
    """The models of a module by name, each made once."""

    def __init__(
        self, made: Callable[[str], Mapping[str, Any]], ids: np.ndarray, folder: Path
    ) -> None:
        self._made, self._ids, self._folder = made, ids, folder
        self._known: dict[str, Faulted] = {}

    def __getitem__(self, name: str) -> Faulted:
        if name not in self._known:
            self._known[name] = Faulted(self._made(name), self._ids, self._folder / name)
        return self._known[name]
