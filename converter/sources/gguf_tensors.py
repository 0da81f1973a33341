"""Tensors of a GGUF file as a Hugging Face checkpoint has them, decoded a few rows at a time."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.gguf import with_codes
from masu.converter.sources.gguf_header import GGUFFile
from masu.converter.sources.gguf_names import Interleaved, PlusOne, ReadByConfig, Row
from masu.converter.sources.gguf_table import GGUFTensor
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import SourceError, TensorMismatch
from masu.specs.stream import FileRange

_MAX_READ = 2**30  # one call moves at most this much; macOS refuses 2 GiB and more


def source_tensors(
    file: GGUFFile, rows: Mapping[str, Row], config: Mapping[str, Any]
) -> dict[str, SourceTensor]:
    """Every weight by its Hugging Face name; what `rows` leaves to the config is left out.

    Raises:
        TensorMismatch: queries or keys whose rows do not divide into heads.
    """
    location = file.path.name
    tensors: dict[str, SourceTensor] = {}
    problems: list[str] = []
    for name, row in rows.items():
        tensor = file.tensors[name]
        if isinstance(row, Interleaved) and tensor.shape[0] % (2 * config[row.heads]):
            problems.append(
                f"{name}: expected rows for {config[row.heads]} heads, found {tensor.shape[0]}"
            )
        elif not isinstance(row, ReadByConfig):
            source = _source_tensor(file.path, tensor, row, config, f"{location}: {name}")
            tensors[source.name] = source
    if problems:
        raise TensorMismatch(
            f"{location} has tensors that do not fit its metadata:", problems=problems
        )
    return tensors


def read_values(path: Path, tensor: GGUFTensor, start: int, stop: int) -> np.ndarray:
    """Entries `start..stop` of the first axis: plain types as they are, quantised ones as float32.

    Raises:
        SourceError: the file was cut short since it was opened.
        IndexError: entries that the tensor does not have.
    """
    if not 0 <= start <= stop <= tensor.shape[0]:
        raise IndexError(f"{tensor.name} has {tensor.shape[0]} rows, asked for {start}..{stop}")
    if tensor.plain is None and len(tensor.shape) == 1:
        # Its values share blocks, so it is decoded whole; such vectors are short.
        data = _read(path, tensor.offset, tensor.length, tensor.name)
        return _decode(data, tensor).reshape(-1)[start:stop]
    step = tensor.length // tensor.shape[0]
    data = _read(path, tensor.offset + start * step, (stop - start) * step, tensor.name)
    shape = (stop - start, *tensor.shape[1:])
    if tensor.plain is not None:
        return data.view(NUMPY_DTYPES[tensor.plain]).reshape(shape)
    return _decode(data, tensor).reshape(shape)


def _source_tensor(
    path: Path,
    tensor: GGUFTensor,
    row: str | Interleaved | PlusOne,
    config: Mapping[str, Any],
    location: str,
) -> SourceTensor:
    def values(start: int, stop: int) -> np.ndarray:
        return read_values(path, tensor, start, stop)

    def blocks(start: int, stop: int) -> np.ndarray:
        return _blocks(path, tensor, start, stop)

    stored = FileRange(path, tensor.offset, tensor.length)
    name, dtype, read, raw = str(row), tensor.plain or "F32", values, None
    order = None
    match row:
        case Interleaved():
            order = tensor.shape[0] // config[row.heads]
            name, read = row.name, _head_by_head(values, order)
        case PlusOne():
            # In float32 whatever the file has: the sum of a norm and 1 was taken in float32.
            name, dtype, read = row.name, "F32", _minus_one(values)
        case _ if tensor.plain:
            raw = stored
    source = SourceTensor(
        name=name,
        dtype=dtype,
        shape=tensor.shape,
        location=location,
        read=read,
        stored=stored,
        raw=raw,
        decoded_from=None if tensor.plain else tensor.kind.name,
    )
    if isinstance(row, PlusOne):
        return source
    rows = blocks if order is None else _head_by_head(blocks, order)
    return with_codes(source, tensor.kind.name, rows)


def _blocks(path: Path, tensor: GGUFTensor, start: int, stop: int) -> np.ndarray:
    """The encoded bytes of rows `start..stop`, U8 `[rows, bytes]`; raises as `read_values`."""
    if not 0 <= start <= stop <= tensor.shape[0]:
        raise IndexError(f"{tensor.name} has {tensor.shape[0]} rows, asked for {start}..{stop}")
    step = tensor.length // tensor.shape[0]
    data = _read(path, tensor.offset + start * step, (stop - start) * step, tensor.name)
    return data.reshape(stop - start, step)


def _head_by_head(
    values: Callable[[int, int], np.ndarray], head_dim: int
) -> Callable[[int, int], np.ndarray]:
    """Undo the interleaving of each head's two halves.

    Row `2 * j + h` of a head in the file is row `h * head_dim / 2 + j` of the checkpoint (`h` is
    0 or 1), so any row of a head may be anywhere in it: whole heads are read.
    """

    def read(start: int, stop: int) -> np.ndarray:
        first, last = start // head_dim, -(-stop // head_dim)
        rows = np.arange(start, stop)
        head, half, place = rows // head_dim, rows // (head_dim // 2) % 2, rows % (head_dim // 2)
        wanted = (head - first) * head_dim + 2 * place + half
        return values(first * head_dim, last * head_dim)[wanted]

    return read


def _minus_one(values: Callable[[int, int], np.ndarray]) -> Callable[[int, int], np.ndarray]:
    def read(start: int, stop: int) -> np.ndarray:
        return values(start, stop).astype(np.float32) - np.float32(1)

    return read


def _decode(data: np.ndarray, tensor: GGUFTensor) -> np.ndarray:
    """Values of whole blocks, as float32 `[rows, columns]`."""
    columns = tensor.shape[-1]
    if not data.size:  # the library cannot decode nothing
        return np.empty((0, columns), np.float32)
    block, size = gguf.GGML_QUANT_SIZES[tensor.kind]
    # A scale may be anything, infinity included; that it is shows in the values, not as a warning.
    with np.errstate(all="ignore"):
        return gguf.dequantize(data.reshape(-1, columns // block * size), tensor.kind)


def _read(path: Path, offset: int, length: int, name: str) -> np.ndarray:
    data = np.empty(length, np.uint8)
    left = data.data
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            while left:
                count = file.readinto(left[:_MAX_READ])
                if not count:
                    raise SourceError(
                        f"{path} was cut short since it was opened: it ends in {name}"
                    )
                left = left[count:]
    except OSError as cause:
        raise SourceError(f"{path} cannot be read: {cause.strerror}") from cause
    return data
