"""The `.spec` entries of model.safetensors: which weight format each matrix of a config has."""

from collections.abc import Iterator, Mapping

from masu.specs.dialect import Dialect
from masu.specs.errors import SchemaError
from masu.specs.formats import WeightFormat, parse_spec
from masu.specs.model import ModelConfig
from masu.specs.row_parts import RowPart
from masu.specs.tensors import Matrix


def read_formats(
    config: ModelConfig, metadata: Mapping[str, str], dialect: Dialect, where: str
) -> dict[str, WeightFormat]:
    """Formats by canonical matrix path, from a file's metadata; `where` names the file.

    Raises:
        SchemaError: all at once, every matrix without a spec, spec without a matrix, and spec that
            is not of the format, of another layout, or impossible for the matrix's shape.
    """
    matrices = {path: entry for path, entry in config.tensors() if isinstance(entry, Matrix)}
    formats: dict[str, WeightFormat] = {}
    problems: list[str] = []
    accounted: set[str] = set()
    split = dialect.row_parts(config)
    for path, matrix in matrices.items():
        own = RowPart(dialect.stored_name(path), matrix.shape[-2])
        for stored, rows in split.get(path, (own,)):
            part = Matrix((*matrix.shape[:-2], rows, matrix.shape[-1]), matrix.layout)
            accounted.add(f"{stored}.spec")
            try:
                format_ = _read_format(stored, metadata)
            except SchemaError as error:
                problems += error.problems or (error.message,)
                continue
            accounted |= format_.metadata(stored).keys()
            problems += _problems(stored, part, format_, metadata)
            if formats.setdefault(path, format_) != format_:
                problems.append(f"{stored}.spec: expected the format of the rows above it")
    problems += [f"{key}: no matrix of config.json has this" for key in metadata.keys() - accounted]
    if problems:
        raise SchemaError(
            f"the weight specs of {where} do not fit config.json", problems=sorted(problems)
        )
    return formats


def _read_format(path: str, metadata: Mapping[str, str]) -> WeightFormat:
    key = f"{path}.spec"
    if key not in metadata:
        raise SchemaError(f"{key}: missing; every matrix has exactly one")
    try:
        return parse_spec(metadata[key], key)
    except SchemaError as error:
        problems = [f"{key}: {problem}" for problem in error.problems] or [error.message]
        raise SchemaError(error.message, problems=problems) from None


def _problems(
    path: str, matrix: Matrix, format_: WeightFormat, metadata: Mapping[str, str]
) -> Iterator[str]:
    """Why a well-formed spec is not that of this matrix."""
    key = f"{path}.spec"
    if format_.stored_layout != matrix.layout:
        yield f"{key}: expected layout {matrix.layout}, found {format_.stored_layout}"
    elif (problem := format_.problem(matrix.shape)) is not None:
        yield f"{key}: {problem}"
    yield from _nested_problems(key, format_.metadata(path), metadata)


def _nested_problems(
    own_key: str, expected: Mapping[str, str], metadata: Mapping[str, str]
) -> Iterator[str]:
    """A hybrid's parts have entries of their own, which must say what the hybrid says of them."""
    for key, text in expected.items():
        if key == own_key:
            continue
        if key not in metadata:
            yield f"{key}: missing; {own_key} implies {text}"
        elif not _is_same_spec(metadata[key], text):
            yield f"{key}: expected {text} as in {own_key}, found {metadata[key]}"


def _is_same_spec(found: str, expected: str) -> bool:
    try:
        return parse_spec(found, "found") == parse_spec(expected, "expected")
    except SchemaError:
        return False
