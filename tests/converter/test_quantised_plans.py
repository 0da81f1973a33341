"""What the converter makes of quantised matrices: ledger, folding, decoding, fusing, verdict."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import golden_spec, open_golden
from quantised_checkpoints import (
    fixture,
    fused,
    package_values,
    packed,
    stored_arrays,
    write_checkpoint,
)
from quantised_checkpoints import planned as planned_folder

import masu
from masu import pipeline
from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.convert import ConversionPlan, plan_conversion
from masu.converter.group import Group
from masu.converter.kept import KeptMaking, shared_format
from masu.converter.provenance import hash_sources
from masu.converter.quantised import find_quantisation, mlx, presented
from masu.converter.quantised.codes import CodedRows, Grid, coded_matrix
from masu.converter.table import match
from masu.converter.views import changed
from masu.specs.formats import FullPrecisionSpec, IntSpec, MLXSpec
from masu.specs.stream import FileRange, PlannedTensor
from masu.specs.tensors import Matrix


def plan(case: str, dtype: Any = "BF16", **options: Any) -> ConversionPlan:
    return plan_conversion(open_golden(case), golden_spec(case), dtype=dtype, **options)


def tensor(planned: ConversionPlan, end: str) -> PlannedTensor:
    return next(found for found in planned.stream if found.name.endswith(end))


@pytest.mark.parametrize("case", ["llama-awq", "llama-mlx-mixed-6bit"])
def test_every_stored_tensor_is_in_the_ledger_and_hashed(case: str) -> None:
    checkpoint, planned = open_golden(case), plan(case)
    assert planned.ledger.tensors.keys() == checkpoint.tensors.keys()
    used = {name for name, entry in planned.ledger.tensors.items() if entry.status == "used"}
    assert hash_sources(checkpoint, planned, {}).keys() == used
    assert planned.ledger.config_keys["quantization_config"].status == "used"


def test_codes_that_lie_in_the_engines_order_are_copied_as_bytes() -> None:
    found = tensor(plan("llama-mlx-4bit-g64"), "qkvg_projection.weights")
    pieces = [piece for name, piece in found.pieces() if name.endswith("weights.weights")]
    assert len(pieces) == 3
    assert all(isinstance(piece, FileRange) for piece in pieces)


@pytest.mark.parametrize("case", ["llama-awq", "qwen3_5-mlx-4bit", "gpt_oss"])
def test_decoded_on_demand(case: str) -> None:
    plain, kept = plan(case, "F32", keep_codes=False), plan(case, "F32")
    assert {type(t.format) for t in plain.stream if t.format} == {FullPrecisionSpec}
    assert {type(t.format) for t in kept.stream if t.format} != {FullPrecisionSpec}
    for one, other in zip(plain.stream, kept.stream, strict=True):
        if one.format is not None:
            values = other.read(0, other.shape[0])
            np.testing.assert_array_equal(stored_arrays(one)["weights"], values, one.name)


def test_a_folded_multiplier_goes_into_the_scales() -> None:
    """Granite's residual multiplier, on a checkpoint whose down projections come as codes."""
    coded = plan_source("llama-mlx-8bit-g32")
    spec = golden_spec("llama-mlx-8bit-g32")
    tensors = coded.tensors
    plain = open_golden("granite")
    config = {**plain.config, "residual_multiplier": 0.375}
    layer = "model.layers.0.mlp.down_proj.weight"
    assert tensors[layer].shape == plain.tensors[layer].shape
    mixed = replace(plain, config=config, tensors={**plain.tensors, layer: tensors[layer]})
    found = tensor(
        plan_conversion(mixed, spec, dtype="F32"), "layers.0.mlp.down_projection.weights"
    )
    assert isinstance(found.format, MLXSpec)
    exact = tensors[layer].read(0, 64) * np.float32(0.375)
    np.testing.assert_array_equal(package_values(found).astype(np.float32), exact)
    np.testing.assert_array_equal(found.read(0, 64), exact)


def plan_source(case: str) -> Checkpoint:
    checkpoint = open_golden(case)
    return presented(checkpoint, find_quantisation(checkpoint.config, case))


def test_a_changed_view_of_codes_is_decoded() -> None:
    """A view has a reader of its own, so the codes cannot outlive the change."""
    source = plan_source("llama-awq").tensors["model.layers.0.mlp.down_proj.weight"]
    assert isinstance(source.read, CodedRows)
    assert not isinstance(changed(source, source.shape, np.negative).read, CodedRows)


def test_a_part_in_plain_numbers_decodes_the_fused_matrix() -> None:
    coded, plain = plan_source("llama-awq"), open_golden("llama")
    key = "model.layers.0.self_attn.v_proj.weight"
    tensors = {**coded.tensors, key: plain.tensors[key]}
    planned = plan_conversion(
        replace(coded, tensors=tensors), golden_spec("llama-awq"), dtype="F32"
    )
    found = tensor(planned, "layers.0.mixer.qkvg_projection.weights")
    assert isinstance(found.format, FullPrecisionSpec)
    np.testing.assert_array_equal(found.read(96, 128), plain.tensors[key].read(0, 32))
    assert "1 matrix of AWQ gemm is decoded and stored as F32" in planned.ledger.notes


FORMATS = [
    ([("affine", 1, 32)], ("MLXSpec", 1, 32, None)),
    ([("affine", 1, 32), ("affine", 3, 64)], ("MLXSpec", 4, 32, None)),
    ([("affine", 5, 64)], ("MLXSpec", 8, 64, None)),
    ([("symmetric", 2, 128), ("symmetric", 4, 32)], ("IntSpec", 4, 32, True)),
    ([("symmetric", 8, 64), ("asymmetric", 3, 64)], ("IntSpec", 8, 64, False)),
    ([("symmetric", 4, 32), ("affine", 4, 32)], ("MLXSpec", 4, 32, None)),
    ([("symmetric", 8, 4096)], ("IntSpec", 8, 64, True)),
    ([("symmetric", 8, 24)], ("IntSpec", 8, 24, True)),
    ([("asymmetric", 4, 128)], ("IntSpec", 4, 128, False)),
]


@pytest.mark.parametrize(("grids", "expected"), FORMATS)
def test_the_narrowest_format_that_holds_all(grids: Any, expected: Any) -> None:
    found = shared_format([Grid(*grid) for grid in grids], "output_input")
    assert found is not None
    symmetric = found.is_symmetric if isinstance(found, IntSpec) else None
    assert (found.type, found.bits, found.group_size, symmetric) == expected


def test_parts_of_different_grids_keep_their_values() -> None:
    """Symmetric codes of 2 bits beside codes of each kind, in the format that they share."""
    for others in ("asymmetric", "affine", "symmetric"):
        parts = {"a": random_codes("symmetric", 2, 16, "a"), "b": random_codes(others, 4, 32, "b")}
        source = replace(open_golden("llama"), tensors=parts)
        matches, _ = match({"{a,b}": "m"}, parts)
        making = KeptMaking("m", Group(matches, source), Matrix((18, 64)), "F32")
        assert not list(making.problems())
        expected = np.concatenate([parts["a"].read(0, 9), parts["b"].read(0, 9)])
        np.testing.assert_array_equal(package_values(making.planned()), expected)


def random_codes(kind: Any, bits: int, group: int, name: str) -> SourceTensor:
    rng = np.random.default_rng(bits)
    groups = 64 // group

    def plane(array: np.ndarray, dtype: str) -> SourceTensor:
        return SourceTensor(
            name=name, dtype=dtype, shape=array.shape, location="test",
            read=lambda start, stop: array[start:stop], stored=FileRange(Path("x"), 0, 0),
        )  # fmt: skip

    codes = plane(rng.integers(0, 2**bits, (9, 64)).astype(np.uint8), "U8")
    scales = plane((rng.integers(1024, 2048, (9, groups)) / 2**14).astype(np.float16), "F16")
    offsets = None
    if kind == "asymmetric":
        offsets = plane(rng.integers(0, 2**bits, (9, groups)).astype(np.uint8), "U8")
    if kind == "affine":
        offsets = plane((rng.integers(-9, 9, (9, groups)) / 8).astype(np.float16), "F16")
    return coded_matrix(name, CodedRows(Grid(kind, bits, group), codes, scales, offsets), "test")


def test_mlx_experts_come_one_by_one() -> None:
    rng = np.random.default_rng(0)
    stacked = {
        "weight": rng.integers(0, 2**32, (3, 8, 4), np.uint32),
        "scales": rng.normal(size=(3, 8, 1)).astype(np.float16),
        "biases": rng.normal(size=(3, 8, 1)).astype(np.float16),
    }
    dtypes = {"weight": "U32", "scales": "F16", "biases": "F16"}
    prefix = "model.layers.0.mlp.switch_mlp.up_proj"
    tensors = {
        f"{prefix}.{suffix}": SourceTensor(
            name=f"{prefix}.{suffix}", dtype=dtypes[suffix], shape=array.shape, location="test",
            read=lambda start, stop, array=array: array[start:stop],
            stored=FileRange(Path("x"), 0, array.nbytes),
        )
        for suffix, array in stacked.items()
    }  # fmt: skip
    settings = mlx.METHOD.read({"bits": 4, "group_size": 32})
    found = mlx.present(settings, tensors)  # pyright: ignore[reportArgumentType]
    assert found.problems == []
    assert list(found.tensors) == [
        f"model.layers.0.mlp.experts.{index}.up_proj.weight" for index in range(3)
    ]
    for index, (name, matrix) in enumerate(found.tensors.items()):
        nibbles = stacked["weight"][index].view(np.uint8)
        codes = np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(8, 32)
        wide = {key: stacked[key][index].astype(np.float32) for key in ("scales", "biases")}
        np.testing.assert_array_equal(matrix.read(0, 8), codes * wide["scales"] + wide["biases"])
        assert found.parts[name] == tuple(f"{prefix}.{s}" for s in ("scales", "weight", "biases"))


def rounded_checkpoint(folder: Path) -> Path:
    """8-bit codes of compressed-tensors, whose scales bfloat16 must round."""
    arrays, _ = fixture("compressed-tensors-channel-symmetric")
    return write_checkpoint(folder, packed(8, True, "channel", None), arrays)


def test_what_the_verdict_compares_with_is_what_the_file_decodes_to(tmp_path: Path) -> None:
    found = fused(planned_folder(rounded_checkpoint(tmp_path / "hf"), "BF16"))
    assert found.decoded is not None
    stored = package_values(found).astype(np.float32)
    np.testing.assert_array_equal(found.decoded(0, 128), stored)
    np.testing.assert_array_equal(found.decoded(30, 70), stored[30:70])
    assert (stored != found.read(0, 128)).any()


def test_a_package_of_codes_passes_its_verdict_and_answers(tmp_path: Path) -> None:
    done = pipeline.convert(rounded_checkpoint(tmp_path / "hf"), tmp_path / "package")
    assert done.verdict is not None
    assert done.verdict.passed
    assert done.verdict.rounding > done.verdict.error
    assert any("scales and biases of 1 matrix are rounded" in note for note in done.notes)
    logits = masu.load(tmp_path / "package", dtype="float32").logits([1, 2, 3])
    assert np.isfinite(logits).all()
