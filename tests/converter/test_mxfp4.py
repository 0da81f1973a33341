"""MXFP4 experts keep their codes and scales; what they are beside is read around them."""

from pathlib import Path

import numpy as np
import pytest
from checkpoints import copy_golden, edit_tensors, open_golden
from golden import GOLDEN
from shared_backends import shared_backend

import masu.pipeline
from masu.runtime.model import load_model
from masu.runtime.reference import reference_logits
from masu.specs.errors import TensorMismatch, VerdictError
from masu.specs.package import Package

EXPERTS = "model.layers.1.mlp.experts"
MLP = "decoder.transformer.layers.1.mlp.experts"
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def converted(folder: Path, out: Path, dtype: str = "float32", *, verify: bool = False) -> Package:
    masu.pipeline.convert(folder, out, dtype=dtype, verify=verify)
    return Package.open(out)


def test_logits_are_those_of_the_decoded_checkpoint(tmp_path: Path) -> None:
    """In a float32 package 1 is added to the up biases without loss, unlike in lalamo's."""
    package = converted(GOLDEN / "gpt_oss" / "hf", tmp_path / "out")
    model = load_model(package, dtype="float32", backend=shared_backend("jax"))
    golden = np.load(GOLDEN / "gpt_oss" / "reference.npz")
    for prompt in (0, 1):
        ids, wanted = golden[f"input_ids_{prompt}"], golden[f"logits_{prompt}"]
        for found in (model.logits(ids), reference_logits(package, ids)):
            assert np.abs(found - wanted).max() / wanted.std() < 1e-4


def test_codes_and_scales_by_a_plain_decoder(tmp_path: Path) -> None:
    """Row r of up is row 2r + 1 of the checkpoint, a gate row 2r; a block is two groups of 16."""
    package = converted(GOLDEN / "gpt_oss" / "hf", tmp_path / "out")
    source = open_golden("gpt_oss").tensors
    blocks = source[f"{EXPERTS}.gate_up_proj_blocks"].read(0, 4)
    exponents = source[f"{EXPERTS}.gate_up_proj_scales"].read(0, 4).astype(int) - 127
    packed = package.read(f"{MLP}.up_projection.weights.weights")
    scales = package.read(f"{MLP}.up_projection.weights.scales").astype(int) - 127
    assert (packed.shape, scales.shape) == ((4, 128, 32), (4, 128, 4))
    for expert, row, column in [(0, 0, 0), (1, 63, 17), (2, 64, 40), (3, 127, 63), (3, 5, 16)]:
        origin = 2 * row + 1 if row < 64 else 2 * (row - 64)
        byte = blocks[expert, origin, column // 32, column % 32 // 2]
        wanted = (
            E2M1[byte >> 4 * (column % 2) & 15] * 2.0 ** exponents[expert, origin, column // 32]
        )
        stored = packed[expert, row, column // 2] >> 4 * (column % 2) & 15
        assert E2M1[stored] * 2.0 ** scales[expert, row, column // 16] == wanted
    assert package.read(f"{MLP}.up_projection.weights.global_scale").tolist() == [1.0] * 4


def test_the_plan_reads_what_the_package_decodes(tmp_path: Path) -> None:
    """`consistent`: the values that the plan reads against the bytes that it wrote."""
    converted(GOLDEN / "gpt_oss" / "hf", tmp_path / "out", "bfloat16", verify=True)


def test_a_wrong_scale_in_the_package_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One scale of one group, twice as large, on the way into the file."""
    from masu.converter.coded import CodedMaking

    pieces = CodedMaking._pieces

    def doubled(self: CodedMaking):
        for array, piece in pieces(self):
            is_hit = array == f"{MLP}.up_projection.weights.scales"
            yield array, piece + np.uint8(1) if is_hit and isinstance(piece, np.ndarray) else piece

    monkeypatch.setattr(CodedMaking, "_pieces", doubled)
    with pytest.raises(VerdictError):
        converted(GOLDEN / "gpt_oss" / "hf", tmp_path / "out", "bfloat16", verify=True)


def test_scales_without_codes_are_refused(tmp_path: Path) -> None:
    folder = copy_golden("gpt_oss", tmp_path / "hf")
    gone = f"{EXPERTS}.down_proj_scales"
    edit_tensors(folder / "model.safetensors", lambda found: (found.pop(gone), None)[1])
    with pytest.raises(TensorMismatch) as caught:
        converted(folder, tmp_path / "out")
    [problem] = caught.value.problems
    assert problem.startswith(f"missing     {MLP}.down_projection.weights.scales, beside {EXPERTS}")


def test_codes_and_numbers_for_one_matrix_are_refused(tmp_path: Path) -> None:
    folder = copy_golden("gpt_oss", tmp_path / "hf")
    plain = np.zeros((4, 64, 64), np.float32)
    edit_tensors(
        folder / "model.safetensors", lambda found: found.update({f"{EXPERTS}.down_proj": plain})
    )
    with pytest.raises(TensorMismatch, match="ambiguous") as caught:
        converted(folder, tmp_path / "out")
    assert f"{EXPERTS}.down_proj, {EXPERTS}.down_proj_blocks" in caught.value.problems[0]


def test_codes_of_another_type_are_refused(tmp_path: Path) -> None:
    folder = copy_golden("gpt_oss", tmp_path / "hf")
    name = f"{EXPERTS}.down_proj_blocks"

    def widen(found: dict[str, np.ndarray]) -> None:
        found[name] = found[name].astype(np.int16)

    edit_tensors(folder / "model.safetensors", widen)
    with pytest.raises(TensorMismatch) as caught:
        converted(folder, tmp_path / "out")
    assert caught.value.problems == (f"type        {name}: expected U8, found I16",)
