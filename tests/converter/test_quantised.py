"""Checkpoints that are quantised already: every method keeps its codes, or decodes exactly."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from checkpoints import golden_spec, open_golden
from gguf_files import decoded, hf_tensors, write_gguf
from golden import GOLDEN
from packed_words import along_columns, along_rows, awq
from quantised_checkpoints import (
    COLUMNS,
    GROUP,
    LAYER,
    SIZES,
    WRITTEN_BY,
    eleven_bits,
    fixture,
    fused,
    package_values,
    planned,
    stored_arrays,
    write_checkpoint,
)

from masu.converter.convert import plan_conversion
from masu.converter.sources.gguf import open_gguf
from masu.specs.errors import TensorMismatch
from masu.specs.formats import FullPrecisionSpec, IntSpec, MLXSpec
from masu.specs.models import ModelSpec

WRITTEN = {
    "mlx": MLXSpec,
    "compressed-tensors-group-asymmetric": IntSpec,
    "compressed-tensors-channel-symmetric": IntSpec,
    "bitsandbytes-int8": IntSpec,
    "bitsandbytes-nf4": FullPrecisionSpec,
}
"""What becomes of the codes of each method."""


@pytest.mark.parametrize("name", WRITTEN)
def test_float32_decodes_to_what_the_writer_stored(name: str, tmp_path: Path) -> None:
    arrays, values = fixture(name)
    tensor = fused(planned(write_checkpoint(tmp_path / "hf", WRITTEN_BY[name], arrays)))
    assert isinstance(tensor.format, WRITTEN[name])
    np.testing.assert_array_equal(package_values(tensor).astype(np.float32), values)
    np.testing.assert_array_equal(tensor.read(0, tensor.shape[0]), values)
    np.testing.assert_array_equal(tensor.read(60, 100), values[60:100])


@pytest.mark.parametrize("name", [name for name in WRITTEN if "nf4" not in name])
def test_bfloat16_keeps_the_codes_and_states_the_rounding(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "hf", WRITTEN_BY[name], fixture(name)[0])
    plan = planned(folder, "BF16")
    exact, rounded = stored_arrays(fused(planned(folder))), stored_arrays(fused(plan))
    for suffix in exact:
        wanted = exact[suffix]
        if suffix in ("scales", "biases"):
            wanted = wanted.astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(rounded[suffix], wanted)
    floats = [exact[suffix] for suffix in ("scales", "biases") if suffix in exact]
    changed = sum((plane.astype(ml_dtypes.bfloat16) != plane).sum() for plane in floats)
    count = sum(plane.size for plane in floats)
    [note] = [note for note in plan.ledger.notes if note.startswith("scales and biases")]
    assert f"{changed / count:.1%} of {count:,} change" in note
    assert not any(note.startswith("scales and") for note in planned(folder).ledger.notes)


def grid(bits: int, group: int = GROUP, seed: int = 0) -> dict[str, np.ndarray]:
    """Codes `[in, out]`, zero points and scales `[groups, out]`, and the values `[out, in]`."""
    rng = np.random.default_rng(seed)
    rows, groups = sum(SIZES.values()), COLUMNS // group
    codes = rng.integers(0, 2**bits, (COLUMNS, rows))
    zeros = rng.integers(1, 2**bits, (groups, rows))
    return {"codes": codes, "zeros": zeros, "scales": eleven_bits(rng, (groups, rows))}


def values_of(made: dict[str, np.ndarray], order: np.ndarray) -> np.ndarray:
    """`(code - zero) * scale` with the group of every input channel, `[out, in]` in float32."""
    scales = made["scales"].astype(np.float32)[order]
    return ((made["codes"] - made["zeros"][order]) * scales).T.astype(np.float32)


def by_layer(made: dict[str, np.ndarray], pack: Any) -> dict[str, np.ndarray]:
    """What `pack` makes of each projection's share of the output channels."""
    arrays, start = {}, 0
    for layer, rows in SIZES.items():
        own = {key: array[:, start : start + rows] for key, array in made.items()}
        arrays |= {f"{layer}.{suffix}": array for suffix, array in pack(own).items()}
        start += rows
    return arrays


def gptq_arrays(made: dict[str, np.ndarray], bits: int, minus: int) -> dict[str, np.ndarray]:
    return by_layer(
        made,
        lambda own: {
            "qweight": along_columns(own["codes"], bits),
            "qzeros": along_rows(own["zeros"] - minus, bits),
            "scales": own["scales"],
        },
    )


def gptq(bits: int, format_: str, **others: Any) -> dict[str, Any]:
    return {
        "quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": False,
        "sym": False, "checkpoint_format": format_, "damp_percent": 0.01, **others,
    }  # fmt: skip


IN_ORDER = np.arange(COLUMNS) // GROUP


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize(("format_", "minus"), [("gptq", 1), ("gptq_v2", 0)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_gptq(bits: int, format_: str, minus: int, symmetric: bool, tmp_path: Path) -> None:
    made = grid(bits)
    if symmetric:
        made["zeros"][:] = 2 ** (bits - 1)
    arrays = gptq_arrays(made, bits, minus)
    settings = gptq(bits, format_, sym=symmetric)
    tensor = fused(planned(write_checkpoint(tmp_path / "hf", settings, arrays)))
    assert isinstance(tensor.format, IntSpec)
    assert tensor.format.bits == (8 if bits == 8 else 4)
    assert tensor.format.is_symmetric == symmetric
    np.testing.assert_array_equal(package_values(tensor), values_of(made, IN_ORDER))
    np.testing.assert_array_equal(tensor.read(0, 128), values_of(made, IN_ORDER))


def test_gptq_in_activation_order_is_decoded(tmp_path: Path) -> None:
    made, order = grid(4), np.random.default_rng(9).permutation(IN_ORDER)
    arrays = gptq_arrays(made, 4, 1) | {f"{n}.g_idx": order.astype(np.int32) for n in SIZES}
    settings = gptq(4, "gptq", desc_act=True)
    plan = planned(write_checkpoint(tmp_path / "hf", settings, arrays))
    np.testing.assert_array_equal(package_values(fused(plan)), values_of(made, order))
    assert (
        "1 matrix of GPTQ with activation order is decoded and stored as F32" in plan.ledger.notes
    )


def test_gptq_with_a_trivial_order_is_kept(tmp_path: Path) -> None:
    made = grid(4)
    arrays = gptq_arrays(made, 4, 1) | {f"{n}.g_idx": IN_ORDER.astype(np.int32) for n in SIZES}
    settings = gptq(4, "gptq", desc_act=True)
    tensor = fused(planned(write_checkpoint(tmp_path / "hf", settings, arrays)))
    assert isinstance(tensor.format, IntSpec)
    np.testing.assert_array_equal(package_values(tensor), values_of(made, IN_ORDER))


@pytest.mark.parametrize(("format_", "minus"), [("gptq", 0), ("gptq_v2", 1)])
def test_gptq_whose_label_and_zero_points_disagree(
    format_: str, minus: int, tmp_path: Path
) -> None:
    made = grid(4)
    made["zeros"][:] = 8
    arrays = gptq_arrays(made, 4, minus)
    folder = write_checkpoint(tmp_path / "hf", gptq(4, format_, sym=True), arrays)
    with pytest.raises(TensorMismatch) as caught:
        planned(folder)
    assert len(caught.value.problems) == len(SIZES)
    found = 9 if minus == 0 else 7
    for name, problem in zip(sorted(SIZES), sorted(caught.value.problems), strict=True):
        assert f"{name}.qzeros: sym true and checkpoint_format {format_} want" in problem
        assert f"to be 8, found {found}" in problem


def test_gptq_zero_points_that_the_first_format_cannot_tell(tmp_path: Path) -> None:
    made = grid(4)
    made["zeros"][0, 0] = 16
    arrays = gptq_arrays(made, 4, 1)
    with pytest.raises(TensorMismatch, match="do not fit") as caught:
        planned(write_checkpoint(tmp_path / "hf", gptq(4, "gptq"), arrays))
    assert "a stored zero point of 15" in caught.value.problems[0]


def awq_config(group: int) -> dict[str, Any]:
    return {
        "quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm",
        "zero_point": True, "modules_to_not_convert": None,
    }  # fmt: skip


def awq_arrays(made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return by_layer(
        made,
        lambda own: {
            "qweight": awq(own["codes"]), "qzeros": awq(own["zeros"]), "scales": own["scales"]
        },
    )  # fmt: skip


@pytest.mark.parametrize("group", [16, 32, 64])
def test_awq(group: int, tmp_path: Path) -> None:
    made = grid(4, group)
    folder = write_checkpoint(tmp_path / "hf", awq_config(group), awq_arrays(made))
    expected = values_of(made, np.arange(COLUMNS) // group)
    tensor = fused(planned(folder))
    assert isinstance(tensor.format, IntSpec)
    assert tensor.format.group_size == group
    np.testing.assert_array_equal(package_values(tensor), expected)
    np.testing.assert_array_equal(tensor.read(3, 70), expected[3:70])


def test_groups_are_cut_for_an_engine_with_smaller_ones(tmp_path: Path) -> None:
    made = grid(4, 64)
    folder = write_checkpoint(tmp_path / "hf", awq_config(64), awq_arrays(made))
    tensor = fused(planned(folder, largest_group=32))
    assert isinstance(tensor.format, IntSpec)
    assert tensor.format.group_size == 32
    np.testing.assert_array_equal(package_values(tensor), values_of(made, np.zeros(COLUMNS, int)))


@pytest.mark.parametrize("blocks", [(48, 40), (32, 32), None])
def test_fp8(blocks: tuple[int, int] | None, tmp_path: Path) -> None:
    """48 rows and 40 columns cut the blocks of every projection short at its edges."""
    rng = np.random.default_rng(4)
    arrays: dict[str, np.ndarray] = {}
    expected = []
    suffix = "weight_scale" if blocks is None else "weight_scale_inv"
    for layer, rows in SIZES.items():
        weight = rng.normal(0, 50, (rows, COLUMNS)).astype(ml_dtypes.float8_e4m3fn)
        height, width = blocks or (rows, COLUMNS)
        shape = (-(-rows // height), -(-COLUMNS // width))
        scales = eleven_bits(rng, shape).astype(np.float32)
        by_value = [
            [scales[row // height, column // width] for column in range(COLUMNS)]
            for row in range(rows)
        ]
        expected.append(weight.astype(np.float32) * np.array(by_value, np.float32))
        arrays |= {f"{layer}.weight": weight, f"{layer}.{suffix}": scales}
    settings = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"}
    if blocks is not None:
        settings["weight_block_size"] = list(blocks)  # pyright: ignore[reportArgumentType]
    folder = write_checkpoint(tmp_path / "hf", settings, arrays)
    plan = planned(folder)
    np.testing.assert_array_equal(package_values(fused(plan)), np.concatenate(expected))
    np.testing.assert_array_equal(fused(plan).read(50, 70), np.concatenate(expected)[50:70])
    assert "1 matrix of FP8 with scales is decoded and stored as F32" in plan.ledger.notes
    notes = planned(folder, "BF16").ledger.notes
    assert "1 tensors are rounded once, from F32 to BF16" in notes


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_gguf_codes_are_kept_on_demand(kind: str, tmp_path: Path) -> None:
    checkpoint = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", kind))
    tensors = hf_tensors("llama")
    parts = [decoded(tensors[f"{LAYER}.{name}.weight"], kind) for name in SIZES]
    spec = ModelSpec(repo="x")
    kept = fused(plan_conversion(checkpoint, spec, dtype="F32", keep_codes=True))
    assert isinstance(kept.format, MLXSpec if kind == "Q4_1" else IntSpec)
    np.testing.assert_array_equal(package_values(kept).astype(np.float32), np.concatenate(parts))
    plain = fused(plan_conversion(checkpoint, spec, dtype="F32"))
    assert isinstance(plain.format, FullPrecisionSpec)
    np.testing.assert_array_equal(package_values(plain), np.concatenate(parts))


def test_other_gguf_types_are_decoded_whoever_asks(tmp_path: Path) -> None:
    checkpoint = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", "Q5_0"))
    plan = plan_conversion(checkpoint, ModelSpec(repo="x"), dtype="F32", keep_codes=True)
    assert isinstance(fused(plan).format, FullPrecisionSpec)
    assert "10 matrices of Q5_0 are decoded and stored as F32" in plan.ledger.notes


def test_mixed_bits_in_a_fused_matrix_are_recoded_without_loss() -> None:
    """Golden `llama-mlx-mixed-6bit`, which lalamo refuses."""
    case = "llama-mlx-mixed-6bit"
    plan = plan_conversion(open_golden(case), golden_spec(case), dtype="BF16")
    expected = np.load(GOLDEN / case / "dequantised.npz")
    tensors = {tensor.name.removeprefix("decoder."): tensor for tensor in plan.stream}
    rows = {
        "model.layers.0.self_attn.v_proj.weight": ("layers.0.mixer.qkvg_projection", 96, 128),
        "model.layers.1.self_attn.q_proj.weight": ("layers.1.mixer.qkvg_projection", 0, 64),
        "model.layers.0.mlp.gate_proj.weight": ("layers.0.mlp.up_projection", 128, 256),
        "model.layers.1.mlp.down_proj.weight": ("layers.1.mlp.down_projection", 0, 64),
    }
    for source, (target, start, stop) in rows.items():
        tensor = tensors[f"transformer.{target}.weights"]
        assert isinstance(tensor.format, MLXSpec)
        assert tensor.format.bits == (4 if "up" in target else 8)
        values = package_values(tensor)[start:stop]
        np.testing.assert_array_equal(values.astype(np.float32), expected[source])
    growth = "4 and 6 bits, groups of 64 -> MLX, 8 bits, groups of 64: 10,240 bytes in the source"
    assert any(growth in note and "17,408 in the package" in note for note in plan.ledger.notes)
