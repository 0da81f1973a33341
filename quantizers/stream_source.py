"""A planned stream as something the runtime can load: plain float32, some matrices replaced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from masu.specs.dtypes import as_float32
from masu.specs.formats import FullPrecisionSpec, WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.model import TextModelConfig
from masu.specs.stream import PlannedTensor
from masu.specs.tensors import ArraySpec


@dataclass
class StreamSource:
    """Attributes:
    replaced: matrices that are read instead of the stream's, by name, float32.
    """

    config: TextModelConfig
    tensors_by_name: Mapping[str, PlannedTensor]
    replaced: dict[str, np.ndarray] = field(default_factory=dict)
    dtype: str = "F32"
    planes: Planes = "group_major"

    @classmethod
    def of(cls, config: TextModelConfig, stream: Sequence[PlannedTensor]) -> "StreamSource":
        return cls(config, {tensor.name: tensor for tensor in stream})

    @property
    def formats(self) -> Mapping[str, WeightFormat]:
        return {
            name: FullPrecisionSpec(type="FullPrecisionSpec", layout=tensor.format.stored_layout)
            for name, tensor in self.tensors_by_name.items()
            if tensor.format is not None
        }

    def tensors(self) -> Mapping[str, ArraySpec]:
        return {
            name if tensor.format is None else f"{name}.weights": ArraySpec("F32", tensor.shape)
            for name, tensor in self.tensors_by_name.items()
        }

    def read(self, name: str) -> np.ndarray:
        own = name.removesuffix(".weights") if name not in self.tensors_by_name else name
        if own in self.replaced:
            return self.replaced[own]
        tensor = self.tensors_by_name[own]
        return as_float32(tensor.read(0, tensor.shape[0]))
