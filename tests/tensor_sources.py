"""Tensor sources for tests of the runtime: a package with parts exchanged, or random numbers."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from masu.runtime.loader import TensorSource
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.tensor_table import expected_tensors
from masu.specs.tensors import ArraySpec, Matrix

Change = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Altered:
    """`base` with another config, arrays changed on their way out, or another table of tensors."""

    base: TensorSource
    config: Any
    changes: Mapping[str, Change] = field(default_factory=dict)
    table: Mapping[str, ArraySpec] | None = None

    @property
    def dtype(self) -> str:
        return self.base.dtype

    @property
    def planes(self) -> Planes:
        return self.base.planes

    @property
    def formats(self) -> Mapping[str, WeightFormat]:
        return self.base.formats

    def tensors(self) -> Mapping[str, ArraySpec]:
        return self.base.tensors() if self.table is None else self.table

    def read(self, name: str) -> np.ndarray:
        values = self.base.read(name)
        return self.changes[name](values) if name in self.changes else values


@dataclass(frozen=True)
class Random:
    """Reproducible normal numbers for any config, in full precision.

    A matrix has the spread `1 / sqrt(columns)`; a vector lies around 1, with spread 0.1.
    """

    config: Any
    dtype: str = "F32"
    planes: Planes = "group_major"

    @property
    def formats(self) -> Mapping[str, WeightFormat]:
        return {
            name: FullPrecisionSpec(type="FullPrecisionSpec", layout=entry.layout)
            for name, entry in self.config.tensors()
            if isinstance(entry, Matrix)
        }

    @cached_property
    def _table(self) -> Mapping[str, ArraySpec]:
        return expected_tensors(self.config, self.formats, self.dtype, self.planes)

    def tensors(self) -> Mapping[str, ArraySpec]:
        return self._table

    def read(self, name: str) -> np.ndarray:
        spec = self._table[name]
        values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(spec.shape)
        values = 1 + values / 10 if len(spec.shape) == 1 else values / np.sqrt(spec.shape[-1])
        return values.astype(NUMPY_DTYPES[spec.dtype])


def edited(config: Any, edit: Callable[[dict], None]) -> Any:
    """The config after `edit` has changed the JSON of its decoder or classifier in place."""
    raw = config.model_dump(mode="json")
    edit(raw[f"{config.ROOT}_config"])
    return type(config).model_validate_json(json.dumps(raw))


def layers_of(decoder: dict) -> list[dict]:
    """The layers in the JSON that `edited` hands over."""
    return decoder["transformer_config"]["layer_configs"]


def each_layer(names: Iterable[str], suffix: str, layers: int) -> list[str]:
    """`decoder.transformer.layers.<n>.<name>.<suffix>` for every layer and name."""
    return [
        f"decoder.transformer.layers.{index}.{name}.{suffix}"
        for index in range(layers)
        for name in names
    ]
