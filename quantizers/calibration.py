"""Calibrated methods: the model runs layer by layer, and each layer is quantised as it is met.

The inputs of a layer come from the layers before it as they were quantised, so that every layer
makes up for what those lost. In memory are one layer, its moments, and the stream of every text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from masu.quantizers.encoding import read_values
from masu.quantizers.method import CalibratedMethod
from masu.quantizers.methods import find_method
from masu.quantizers.observation import ObservingBackend
from masu.quantizers.plan import Quantisation
from masu.quantizers.stream_source import StreamSource
from masu.runtime.loader import Loader
from masu.runtime.reference import Stages
from masu.specs.dtypes import as_float32
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Arrays, Planes
from masu.specs.stream import Piece, PlannedTensor

if TYPE_CHECKING:
    from masu.quantizers.gradients import Worths

FLOAT32 = np.dtype(np.float32)

ROWS_TOGETHER = 1 << 24
"""Values of a matrix whose rows are encoded at a time, where its format has rows apart."""

OnLayer = Callable[[int, int], None]
"""Layers done, and how many there are."""


@dataclass(frozen=True)
class _Setting:
    dtype: str
    planes: Planes
    scratch: Path
    worths: "Worths | None" = None


def calibrate(
    plan: Quantisation,
    texts: Sequence[np.ndarray],
    dtype: str,
    planes: Planes,
    scratch: Path,
    on_layer: OnLayer | None = None,
) -> Quantisation:
    """The plan with the codes of all its calibrated matrices, which wait in `scratch`.

    Args:
        texts: token ids, each text a sequence of its own.
        dtype: the model's own element type, by its name in the file.
        scratch: an empty folder that stays until the stream has been written.
    """
    source = StreamSource.of(plan.config, plan.originals)
    setting = _Setting(dtype, planes, scratch, _worths(plan, source, texts, scratch))
    made = {tensor.name: tensor for tensor in plan.stream}
    for name, arrays in _encoded(plan, source, texts, setting, made, on_layer):
        made[name] = _waiting(made[name], arrays, setting)
    return replace(
        plan, stream=tuple(made[tensor.name] for tensor in plan.stream), pending=frozenset()
    )


def _worths(
    plan: Quantisation, source: StreamSource, texts: Sequence[np.ndarray], scratch: Path
) -> "Worths | None":
    """What outputs are worth to the model as it is, if some method asks for that."""
    methods = {name: find_method(plan.assignments[name].method) for name in plan.pending}
    wanted = {name for name, method in methods.items() if method.two_sided}
    if not wanted:
        return None
    from masu.quantizers.gradients import find_worths

    return find_worths(source, texts, wanted, scratch)


def _encoded(
    plan: Quantisation,
    source: StreamSource,
    texts: Sequence[np.ndarray],
    setting: _Setting,
    made: Mapping[str, PlannedTensor],
    on_layer: OnLayer | None,
) -> Iterator[tuple[str, Arrays]]:
    """Every calibrated matrix that some text reached, layer by layer."""
    backend = ObservingBackend()
    network = plan.config.network
    loader = Loader(source, backend, FLOAT32, on_matrix=backend.on_matrix).under(plan.config.ROOT)
    runs = [Stages(network, loader, backend, len(ids), FLOAT32) for ids in texts]
    _replace(source, made, lambda name: ".transformer.layers." not in name)
    entered = [run.enter(ids) for run, ids in zip(runs, texts, strict=True)]
    source.replaced.clear()
    streams = [each.stream for each in entered]
    count = len(network.transformer_config.layer_configs)
    for index in range(count):
        own = f"{plan.config.ROOT}.transformer.layers.{index}."
        watched = {name for name in plan.pending if name.startswith(own)}
        backend.watch(watched, setting.worths and setting.worths.inputs(watched))
        parameters = runs[0].parameters(index)
        for run, x, each in zip(runs, streams, entered, strict=True):
            run.layer(index, parameters, x, each, keep=False)
        yield from _layer(plan, own, source, backend.moments(), setting, made)
        backend.watch(())
        parameters = runs[0].parameters(index)
        streams = [
            run.layer(index, parameters, x, each)
            for run, x, each in zip(runs, streams, entered, strict=True)
        ]
        source.replaced.clear()
        if on_layer is not None:
            on_layer(index + 1, count)
    yield from _readout(plan, source, backend, runs, streams, setting)


def _layer(
    plan: Quantisation,
    own: str,
    source: StreamSource,
    moments: Mapping[str, np.ndarray],
    setting: _Setting,
    made: Mapping[str, PlannedTensor],
) -> Iterator[tuple[str, Arrays]]:
    """The layer's calibrated matrices; all its quantised ones replace their originals."""
    originals = source.tensors_by_name
    _replace(source, made, lambda name: name.startswith(own) and name not in moments)
    for name, seen in moments.items():
        arrays = _encode(plan, originals[name], seen, setting)
        source.replaced[name] = _decoded(plan, originals[name], arrays, setting)
        yield name, arrays


def _replace(
    source: StreamSource, made: Mapping[str, PlannedTensor], chosen: Callable[[str], bool]
) -> None:
    """What the model reads is from now on what the package will hold, of the chosen matrices."""
    for name, tensor in made.items():
        if tensor.decoded is not None and chosen(name):
            source.replaced[name] = as_float32(tensor.decoded(0, tensor.shape[0]))


def _readout(
    plan: Quantisation,
    source: StreamSource,
    backend: ObservingBackend,
    runs: Sequence[Stages],
    streams: Sequence[Any],
    setting: _Setting,
) -> Iterator[tuple[str, Arrays]]:
    """A readout with a table of its own sees the stream after the last norm."""
    name = f"{plan.config.ROOT}.embedding.output_embedding"
    if name not in plan.pending:
        return
    backend.watch({name})
    for run, x in zip(runs, streams, strict=True):
        run.leave(x)
    moments = backend.moments()
    yield name, _encode(plan, source.tensors_by_name[name], moments[name], setting)


def _encode(
    plan: Quantisation, tensor: PlannedTensor, moments: np.ndarray, setting: _Setting
) -> Arrays:
    assignment = plan.assignments[tensor.name]
    method, target = find_method(assignment.method), _format(plan, tensor.name)
    assert isinstance(method, CalibratedMethod)  # what `pending` means
    rows, columns = tensor.shape
    size = rows
    outputs = setting.worths and setting.worths.outputs(tensor.name)
    if target.row_multiple is not None and outputs is None:
        size = max(1, ROWS_TOGETHER // (columns * target.row_multiple)) * target.row_multiple

    def block(start: int) -> Arrays:
        values = read_values(tensor, start, min(start + size, rows))
        own = setting.dtype, setting.planes
        return method.encode_calibrated(target, values, moments, *own, outputs)

    with ThreadPoolExecutor() as pool:
        blocks = list(pool.map(block, range(0, rows, size)))
    return blocks[0] if len(blocks) == 1 else target.join(blocks, setting.planes)


def _decoded(
    plan: Quantisation, tensor: PlannedTensor, arrays: Arrays, setting: _Setting
) -> np.ndarray:
    target = _format(plan, tensor.name)
    return target.decode(arrays, tensor.shape, setting.planes, np.float32)


def _format(plan: Quantisation, name: str) -> WeightFormat:
    return cast(WeightFormat, plan.assignments[name].format)


def _waiting(tensor: PlannedTensor, arrays: Arrays, setting: _Setting) -> PlannedTensor:
    """The tensor with its codes on disk until they are written to the package."""
    files: dict[str, Path] = {}
    for suffix, array in arrays.items():
        file = setting.scratch / f"{tensor.name}.{suffix}.bin"
        np.ascontiguousarray(array).tofile(file)
        files[suffix] = file
    kinds = {suffix: (array.dtype, array.shape) for suffix, array in arrays.items()}

    def load(suffix: str) -> np.ndarray:
        dtype, shape = kinds[suffix]
        return np.fromfile(files[suffix], dtype).reshape(shape)

    def pieces() -> Iterator[tuple[str, Piece]]:
        yield from ((f"{tensor.name}.{suffix}", load(suffix)) for suffix in files)

    def decoded(start: int, stop: int) -> np.ndarray:
        assert tensor.format is not None
        stored = {suffix: load(suffix) for suffix in files}
        matrix = tensor.format.decode(stored, tensor.shape, setting.planes, np.float32)
        return matrix[start:stop]

    return replace(tensor, pieces=pieces, decoded=decoded)
