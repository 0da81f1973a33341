"""The tensors of one quantised layer, found beside each other by the ends of their names."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from masu.converter.checkpoint import SourceTensor
from masu.specs.errors import TensorMismatch

Tensors: TypeAlias = Mapping[str, SourceTensor]

FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Module:
    """A layer `name` and its tensors by suffix: `model.layers.0.mlp.up_proj` and `qweight` ..."""

    name: str
    tensors: Tensors

    def need(self, suffix: str) -> SourceTensor:
        if suffix not in self.tensors:
            found = ", ".join(self.tensors)
            raise TensorMismatch(f"{self.name}.{suffix}: expected beside {found}, not found")
        return self.tensors[suffix]

    def matrix(self, suffix: str, dtypes: Collection[str]) -> SourceTensor:
        """The tensor, with two axes and one of these types."""
        tensor = self.need(suffix)
        if len(tensor.shape) != 2 or tensor.dtype not in dtypes:
            raise TensorMismatch(
                f"{tensor.name}: expected a matrix of {' or '.join(dtypes)}, "
                f"found {tensor.dtype} {list(tensor.shape)}"
            )
        return tensor


@dataclass
class Presented:
    """A checkpoint's tensors as the family's table expects them.

    Attributes:
        tensors: by Hugging Face name.
        parts: the stored tensors behind those of them that are made of others.
        problems: what does not fit together.
    """

    tensors: dict[str, SourceTensor] = field(default_factory=dict)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def present_modules(
    tensors: Tensors,
    anchor: str,
    others: Collection[str],
    matrix: Callable[[Module], SourceTensor],
) -> Presented:
    """Every layer that has an `anchor` tensor gets one matrix `<layer>.weight` for all of its own.

    Tensors of no such layer pass as they are, so that the table can use or refuse them.

    Args:
        others: suffixes of further tensors that belong to the layer where they are.
        matrix: makes the matrix of a layer; a TensorMismatch becomes one of the problems.
    """
    presented = Presented()
    for name in tensors:
        if name.endswith(f".{anchor}"):
            layer = name.removesuffix(f".{anchor}")
            names = {s: f"{layer}.{s}" for s in (anchor, *others) if f"{layer}.{s}" in tensors}
            presented.parts[f"{layer}.weight"] = tuple(names.values())
            module = Module(layer, {suffix: tensors[full] for suffix, full in names.items()})
            try:
                presented.tensors[f"{layer}.weight"] = matrix(module)
            except TensorMismatch as error:
                presented.problems.append(error.message)
    used = {part for parts in presented.parts.values() for part in parts}
    for name, tensor in tensors.items():
        if name in used:
            continue
        if name in presented.parts:
            presented.problems.append(f"{name}: not expected beside {presented.parts[name][0]}")
        else:
            presented.tensors[name] = tensor
    return presented


def need_floats(tensor: SourceTensor) -> SourceTensor:
    """The tensor, if its type is one of the plain floats."""
    if tensor.dtype not in FLOATS:
        raise TensorMismatch(f"{tensor.name}: expected floats, found {tensor.dtype}")
    return tensor
