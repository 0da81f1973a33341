"""What this installation can do: `masu capabilities`, as a function.

Nothing is taken from a list of claims where it can be tried: a backend is available if it loads,
and keeps a format's codes if it does so with a small matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from platform import platform, python_version

import numpy as np

from masu.machine import cpu_name
from masu.quantizers.methods import method_names
from masu.runtime.backend import Backend
from masu.runtime.backends import backend_names, load_backend, why_not
from masu.runtime.weights import Weight, held_bytes
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.engines import ENGINES
from masu.specs.formats import WEIGHT_FORMAT, FullPrecisionSpec, WeightFormat
from masu.specs.formats.native import encoders
from masu.specs.recipe import named_recipes

_INT4 = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}
_OUT = {"layout": "output_input"}

FORMATS: dict[str, WeightFormat] = {
    label: WEIGHT_FORMAT.validate_python(fields, strict=False)
    for label, fields in {
        "FullPrecision": {"type": "FullPrecisionSpec", **_OUT},
        "Int 4-bit": {**_INT4, **_OUT},
        "Int 8-bit": {**_INT4, **_OUT, "bits": 8},
        "MLX 1-bit": {"type": "MLXSpec", "bits": 1, "group_size": 32, **_OUT},
        "MLX 4-bit": {"type": "MLXSpec", "bits": 4, "group_size": 32, **_OUT},
        "MLX 8-bit": {"type": "MLXSpec", "bits": 8, "group_size": 32, **_OUT},
        "LloydMax 4-bit": {
            "type": "LloydMaxSpec", "bits": 4, "group_size": 32, "bias_bits": None, **_OUT
        },
        "Microfloat mxfp4": {
            "type": "MicrofloatSpec", "bits": 4, "group_size": 32, "scale_mode": "mxfp4", **_OUT
        },
        "Microfloat nvfp4": {
            "type": "MicrofloatSpec", "bits": 4, "group_size": 16, "scale_mode": "nvfp4", **_OUT
        },
        "Hybrid of Int 4-bit": {
            "type": "HybridSpec",
            "quantization_spec": {**_INT4, **_OUT},
            "adapter_spec": None,
            "incoherence_block_size": 32,
            "incoherence_processing_mode": "input",
        },
        "LowRank": {"type": "LowRankSpec", "rank": 4},
        "D4S4": {"type": "D4S4Spec", "layout": "input_output"},
    }.items()
}  # fmt: skip
"""One spec for every format that backends may treat in a way of its own, by what it is called."""

LIBRARIES = (
    "masu", "jax", "jaxlib", "mlx", "numpy", "safetensors", "tokenizers", "minijinja",
    "huggingface_hub", "gguf", "torch", "transformers",
)  # fmt: skip


@dataclass(frozen=True)
class KernelEntry:
    """A native kernel: the operations it computes, and what it takes (`Kernel.serves`)."""

    name: str
    operations: tuple[str, ...]
    serves: str
    is_row_invariant: bool


@dataclass(frozen=True)
class BackendEntry:
    """What one backend can do here; of one that is not available only `why_not` is filled.

    Attributes:
        why_not: the reason why it cannot be used; None where it can.
        devices: what it computes on, the one it uses first.
        dtypes: of activations.
        in_place: formats whose stored codes it multiplies with, in groups it serves.
        decoded: formats that it decodes to plain numbers, once, at load.
        roundings: what it rounds activations to that meet stored codes, if it is asked to.
        instruction_set: what its own kernels are compiled for; None without kernels.
        row_invariant: operations that give a row the same bits however many rows share the call.
    """

    name: str
    why_not: str | None
    devices: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    roundings: tuple[str, ...] = ()
    instruction_set: str | None = None
    kernels: tuple[KernelEntry, ...] = ()

    @property
    def available(self) -> bool:
        return self.why_not is None

    @property
    def row_invariant(self) -> tuple[str, ...]:
        invariant = (each.operations for each in self.kernels if each.is_row_invariant)
        return tuple(operation for operations in invariant for operation in operations)


@dataclass(frozen=True)
class Capabilities:
    """What there is.

    Attributes:
        default_backend: what `masu run` takes without `--backend`.
        encoders_why_not: why the compiled encoders are missing; None where they are there.
        methods, recipes, engines: names that `quantize` and `check` know.
        versions: of Python and libraries; None where one is not installed.
    """

    platform: str
    processor: str
    default_backend: str
    backends: tuple[BackendEntry, ...]
    encoders_why_not: str | None
    methods: tuple[str, ...]
    recipes: tuple[str, ...]
    engines: tuple[str, ...]
    versions: dict[str, str | None]


def capabilities() -> Capabilities:
    """What this installation can do, and why something is not there; loads every backend."""
    return Capabilities(
        platform=platform(),
        processor=cpu_name(),
        default_backend=load_backend().name,
        backends=tuple(map(_backend, backend_names())),
        encoders_why_not=encoders.why_not(),
        methods=tuple(method_names()),
        recipes=tuple(named_recipes()),
        engines=tuple(ENGINES),
        versions={"python": python_version(), **{name: _version(name) for name in LIBRARIES}},
    )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _backend(name: str) -> BackendEntry:
    if problem := why_not(name):
        return BackendEntry(name, problem)
    backend = load_backend(name)
    kept = {label: _is_kept(backend, spec) for label, spec in FORMATS.items()}
    kernels = tuple(_kernels(name))
    return BackendEntry(
        name,
        None,
        devices=backend.devices(),
        dtypes=backend.dtypes,
        in_place=tuple(label for label, is_kept in kept.items() if is_kept),
        decoded=tuple(label for label, is_kept in kept.items() if not is_kept),
        roundings=backend.roundings,
        instruction_set=_instruction_set() if kernels else None,
        kernels=kernels,
    )


def _is_kept(backend: Backend, spec: WeightFormat) -> bool:
    """Whether a bfloat16 package's matrix in this format is held as it is stored."""
    shape = (64, 64)
    arrays = {
        suffix: np.zeros(each.shape, NUMPY_DTYPES[each.dtype])
        for suffix, each in spec.arrays(shape, "BF16", "group_major").items()
    }
    stored = Weight(spec, arrays, shape, "group_major")
    held = backend.hold(stored, NUMPY_DTYPES["BF16"])
    if not isinstance(held.format, FullPrecisionSpec):
        return True
    return held.format == spec and held_bytes(held) == held_bytes(stored)


def _kernels(name: str) -> Iterator[KernelEntry]:
    """Those of the native backend: the only one with kernels of masu's own."""
    if name != "native":
        return
    from masu.runtime.backends.native.kernels import KERNELS

    for each in KERNELS:
        yield KernelEntry(each.target, each.operations, each.serves, each.is_row_invariant)


def _instruction_set() -> str:
    from masu.runtime.backends.native.library import instruction_set

    return instruction_set()
