"""The table of tensors that a config and its formats imply, and how a file differs from it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from masu.specs.dialect import Dialect
from masu.specs.dtypes import FloatDType
from masu.specs.errors import TensorError
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.model import ModelConfig
from masu.specs.tensors import ArraySpec, Matrix

OTHER_PLANES: dict[Planes, Planes] = {"group_major": "row_major", "row_major": "group_major"}

OTHER_AGE = "wrong order of group parameters, written by another release than config.json"


def expected_tensors(
    config: ModelConfig, formats: Mapping[str, WeightFormat], dtype: str, planes: Planes
) -> dict[str, ArraySpec]:
    """Every stored array by canonical name; `dtype` is the model's own.

    Nothing else decides what model.safetensors holds, on either side.
    """
    table: dict[str, ArraySpec] = {}
    for name, entry in config.tensors():
        if isinstance(entry, Matrix):
            arrays = formats[name].arrays(entry.shape, dtype, planes)
            table |= {f"{name}.{suffix}": spec for suffix, spec in arrays.items()}
        else:
            table[name] = ArraySpec(entry.dtype or dtype, entry.shape)
    return table


def stored_tensors(
    config: ModelConfig,
    formats: Mapping[str, WeightFormat],
    dtype: str,
    dialect: Dialect,
    planes: Planes,
) -> dict[str, ArraySpec]:
    """The same arrays by the names, and in the pieces, in which the dialect's files hold them."""
    table: dict[str, ArraySpec] = {}
    expected = expected_tensors(config, formats, dtype, planes)
    shapes = {path: entry.shape for path, entry in config.tensors() if isinstance(entry, Matrix)}
    for path, parts in dialect.row_parts(config).items():
        expected = {n: spec for n, spec in expected.items() if not n.startswith(f"{path}.")}
        for part in parts:
            arrays = formats[path].arrays(part.shape(shapes[path]), dtype, planes)
            table |= {f"{part.path}.{suffix}": spec for suffix, spec in arrays.items()}
    return table | {dialect.stored_name(name): spec for name, spec in expected.items()}


def check_table(
    config: ModelConfig,
    formats: Mapping[str, WeightFormat],
    dialect: Dialect,
    found: Mapping[str, ArraySpec],
    where: str,
) -> str:
    """Compares the arrays of a file, by their names there, with the table; the model's dtype.

    Raises:
        TensorError: all at once, every array that is missing, unexpected, or of another shape or
            dtype. The model's dtype is that of most of its arrays, so that strays stand out.
    """

    def table(dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        return stored_tensors(config, formats, dtype, dialect, planes)

    planes = dialect.planes
    dtype = _model_dtype(table("BF16", planes), table("F32", planes), found)
    other = table(dtype, OTHER_PLANES[planes])
    problems = sorted(_differences(table(dtype, planes), other, found))
    if problems:
        message = f"{where} does not hold what config.json and the weight specs say"
        raise TensorError(message, problems=problems, hint=_other_age(problems, dialect))
    return dtype


def _other_age(problems: Sequence[str], dialect: Dialect) -> str | None:
    """Which of the two files to change, where they come from two releases."""
    if not any(OTHER_AGE in problem for problem in problems):
        return None
    return (
        f"config.json is of {dialect.name}, model.safetensors is not: take both from one package,"
        " and `masu migrate` that if an engine of another release is to load it"
    )


def _model_dtype(
    as_bf16: Mapping[str, ArraySpec],
    as_f32: Mapping[str, ArraySpec],
    found: Mapping[str, ArraySpec],
) -> str:
    """The most frequent float type among the arrays whose expected type is the model's own.

    Those are the arrays in which the table for one dtype differs from that for another.
    """
    own = [name for name in as_bf16 if as_bf16[name] != as_f32[name] and name in found]
    counts = Counter(found[name].dtype for name in own)
    floats = [dtype for dtype in get_args(FloatDType) if counts[dtype]]
    return max(floats, key=lambda dtype: counts[dtype], default="BF16")


def _differences(
    expected: Mapping[str, ArraySpec],
    with_other_planes: Mapping[str, ArraySpec],
    found: Mapping[str, ArraySpec],
) -> Iterator[str]:
    for name in expected.keys() | found.keys():
        if name not in found:
            yield f"{name}: missing; expected {expected[name]}"
        elif name not in expected:
            yield f"{name}: unexpected; found {found[name]}"
        elif expected[name] != found[name]:
            what = _difference(expected[name], with_other_planes[name], found[name])
            yield f"{name}: {what}; expected {expected[name]}, found {found[name]}"


def _difference(expected: ArraySpec, with_other_planes: ArraySpec, found: ArraySpec) -> str:
    if expected.shape == found.shape:
        return "wrong dtype"
    # Planes that are equally large both ways cannot be told apart; a file rarely has only those.
    if found == with_other_planes:
        return OTHER_AGE
    return "wrong shape"
