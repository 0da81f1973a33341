"""What a package holds, without loading it: sizes, formats, bits per weight, memory."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.footprint import layers, state_bytes
from masu.specs.formats import HybridSpec, WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.model import ModelConfig
from masu.specs.tensor_table import expected_tensors
from masu.specs.tensors import ArraySpec, Matrix

FIELD_WORDS = {"bits": "{} bits", "group_size": "groups of {}", "rank": "rank {}"}


@dataclass(frozen=True)
class FormatShare:
    """The matrices that are kept in one weight format: how many, their values, their bytes."""

    matrices: int
    values: int
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.bytes / self.values


@dataclass(frozen=True)
class Summary:
    """Attributes:
    model_type: the `type` of config.json.
    dtype: the model's own element type, by its name in the file.
    layers: number of transformer layers.
    tensors: stored arrays in model.safetensors.
    parameters: weights of the model, however they are stored.
    weight_bytes: bytes of all stored arrays.
    context: tokens that `state_bytes` is for.
    state_bytes: caches and recurrent states of one conversation of that length.
    formats: shares by weight format, spelled as its spec.
    """

    model_type: str
    dtype: str
    layers: int
    tensors: int
    parameters: int
    weight_bytes: int
    context: int
    state_bytes: int
    formats: dict[str, FormatShare]

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.weight_bytes / self.parameters

    @property
    def memory_floor(self) -> int:
        """Bytes of weights and state: what a run cannot do without."""
        return self.weight_bytes + self.state_bytes


def summarize(
    config: ModelConfig,
    formats: Mapping[str, WeightFormat],
    dtype: str,
    planes: Planes,
    *,
    context: int,
) -> Summary:
    """Sizes of a package that is there or planned, from its config and its formats alone."""
    arrays = expected_tensors(config, formats, dtype, planes)
    return Summary(
        model_type=config.type,
        dtype=dtype,
        layers=len(layers(config)),
        tensors=len(arrays),
        parameters=sum(prod(entry.shape) for _, entry in config.tensors()),
        weight_bytes=sum(map(array_bytes, arrays.values())),
        context=context,
        state_bytes=state_bytes(config, context, dtype),
        formats=_format_shares(config, formats, dtype, planes),
    )


def array_bytes(array: ArraySpec) -> int:
    return prod(array.shape) * NUMPY_DTYPES[array.dtype].itemsize


def _format_shares(
    config: ModelConfig, formats: Mapping[str, WeightFormat], dtype: str, planes: Planes
) -> dict[str, FormatShare]:
    matrices: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, entry in config.tensors():
        if isinstance(entry, Matrix):
            arrays = formats[name].arrays(entry.shape, dtype, planes).values()
            sizes = prod(entry.shape), sum(map(array_bytes, arrays))
            matrices[describe_format(formats[name])].append(sizes)
    return {
        label: FormatShare(len(sizes), sum(v for v, _ in sizes), sum(b for _, b in sizes))
        for label, sizes in matrices.items()
    }


def describe_format(kept: WeightFormat) -> str:
    """A format in a few words: `Int, 4 bits, groups of 32`."""
    words = [kept.type.removesuffix("Spec")]
    if isinstance(kept, HybridSpec):
        words += [f"{name} {describe_format(part)}" for name, part in kept.parts.items()]
        if kept.incoherence_block_size is not None:
            words.append(f"rotated in blocks of {kept.incoherence_block_size}")
    fields = kept.model_dump()
    words += [text.format(fields[key]) for key, text in FIELD_WORDS.items() if key in fields]
    return ", ".join(words)
