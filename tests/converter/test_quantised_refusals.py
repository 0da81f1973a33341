"""What is outside the closed list of quantisations is refused in one line, before any weight."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import open_golden
from quantised_checkpoints import FUSED, LAYER, write_checkpoint

from masu.converter.convert import accept_config, plan_conversion
from masu.converter.quantised import find_quantisation, presented
from masu.converter.sources.folder import open_folder
from masu.specs.errors import ConfigError, TensorMismatch
from masu.specs.models import ModelSpec

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
BNB = {"quant_method": "bitsandbytes"}
MLX = {"bits": 4, "group_size": 64}
WEIGHTS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}


def packed(weights: dict[str, Any], **others: Any) -> dict[str, Any]:
    group = {"weights": {**WEIGHTS, **weights}, "targets": ["Linear"]}
    return {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": group}, **others,
    }  # fmt: skip


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown method": ({"quant_method": "eetq"}, "'eetq'"),
    "method that is no name": ({"quant_method": ["awq"]}, "['awq']"),
    "AWQ for another kernel": ({**AWQ, "version": "gemv"}, "version 'gemv'"),
    "AWQ of 8 bits": ({**AWQ, "bits": 8}, "bits"),
    "AWQ without bits": ({k: v for k, v in AWQ.items() if k != "bits"}, "bits"),
    "GPTQ for marlin": ({**GPTQ, "checkpoint_format": "marlin"}, "format 'marlin'"),
    "GPTQ of a version": ({**GPTQ, "version": "3"}, "version '3'"),
    "GPTQ of 5 bits": ({**GPTQ, "bits": 5}, "bits"),
    "GPTQ with layers of their own": ({**GPTQ, "dynamic": {"+:.*up": {"bits": 8}}}, "dynamic"),
    "GPTQ in other words": ({**GPTQ, "pack_dtype": "int16"}, "pack_dtype"),
    "FP8 of another type": ({**FP8, "fmt": "e5m2"}, "e5m2"),
    "FP8 with scales of another type": ({**FP8, "scale_fmt": "ue8m0"}, "ue8m0"),
    "compressed-tensors format": (packed({}, format="marlin-24"), "format 'marlin-24'"),
    "compressed-tensors bits": (packed({"num_bits": 3}), "num_bits"),
    "compressed-tensors order": (packed({"actorder": "group"}), "actorder"),
    "compressed-tensors sparsity": (packed({}, sparsity_config={"format": "24"}), "sparsity"),
    "compressed-tensors cache": (packed({}, kv_cache_scheme={"num_bits": 8}), "kv_cache_scheme"),
    "bitsandbytes fp4": ({**BNB, "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, "fp4"),
    "bitsandbytes of no width": (BNB, "load_in_4bit"),
    "MLX mode": ({**MLX, "mode": "nvfp4"}, "nvfp4"),
    "MLX bits": ({**MLX, "bits": 7}, "bits"),
    "MLX mode of a layer": ({**MLX, "model.layers.0": {**MLX, "mode": "mxfp8"}}, "mxfp8"),
    "unknown setting": ({**AWQ, "rotation": "hadamard"}, "rotation"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line_by_the_config_alone(case: str) -> None:
    settings, named = REFUSED[case]
    config = {**open_golden("llama").config, "quantization_config": settings}
    with pytest.raises(ConfigError) as caught:
        accept_config(config, None, "org/name")
    assert not caught.value.problems
    assert "\n" not in caught.value.message
    assert named in caught.value.message
    assert "method" in caught.value.message
    assert caught.value.hint is not None


def test_every_method_accepts_its_base_case() -> None:
    """So that the refusals above are for the reason that each adds."""
    base = open_golden("llama").config
    for settings in (AWQ, GPTQ, FP8, packed({}), {**BNB, "load_in_8bit": True}, MLX):
        assert accept_config({**base, "quantization_config": settings}, None, "x") is not None
        assert accept_config({**base, "quantization": settings}, None, "x") is not None


def test_a_family_whose_weights_the_writer_changes() -> None:
    with pytest.raises(ConfigError, match=r"method 'mlx'.* folds its multipliers"):
        find_quantisation({"model_type": "falcon_h1", "quantization": MLX}, "x")
    assert find_quantisation({"model_type": "llama", "quantization": MLX}, "x") is not None


def test_two_configs_that_differ() -> None:
    config = {"quantization": MLX, "quantization_config": {**MLX, "bits": 8}}
    with pytest.raises(ConfigError, match="expected one quantisation"):
        find_quantisation(config, "x")


def arrays(rows: int = 64) -> dict[str, np.ndarray]:
    return {
        "q_proj.weight": np.zeros((rows, 8), np.uint32),
        "q_proj.scales": np.ones((rows, 1), np.float16),
        "q_proj.biases": np.ones((rows, 1), np.float16),
        "k_proj.weight": np.zeros((32, 64), np.float16),
        "v_proj.weight": np.zeros((32, 64), np.float16),
    }


FAULTY: dict[str, tuple[dict[str, Any], str]] = {
    "no biases": ({"q_proj.biases": None}, "q_proj.biases: expected beside"),
    "no codes": ({"q_proj.weight": None}, "q_proj.weight: expected beside"),
    "codes of another width": ({"q_proj.weight": np.zeros((64, 16), np.uint32)}, "words"),
    "codes of another type": ({"q_proj.weight": np.zeros((64, 8), np.int32)}, "I32"),
    "scales of other rows": ({"q_proj.scales": np.ones((32, 1), np.float16)}, "q_proj.scales"),
    "scales that are no floats": ({"q_proj.scales": np.ones((64, 1), np.int32)}, "floats"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_tensors_that_do_not_fit_their_config(case: str, tmp_path: Path) -> None:
    edit, named = FAULTY[case]
    made = {k: v for k, v in {**arrays(), **edit}.items() if v is not None}
    checkpoint = open_folder(write_checkpoint(tmp_path / "hf", MLX, made))
    with pytest.raises(TensorMismatch) as caught:
        plan_conversion(checkpoint, ModelSpec(repo="x"), dtype="F32")
    assert len(caught.value.problems) == 1
    assert named in caught.value.problems[0]


def test_a_layer_that_the_config_calls_plain(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "hf", {**MLX, f"{LAYER}.q_proj": False}, arrays())
    with pytest.raises(TensorMismatch) as caught:
        plan_conversion(open_folder(folder), ModelSpec(repo="x"), dtype="F32")
    assert "the config says it is not quantised" in caught.value.problems[0]


def test_a_parameter_without_codes_belongs_to_nothing(tmp_path: Path) -> None:
    made = {**arrays(), "k_proj.biases": np.ones((32, 1), np.float16)}
    folder = write_checkpoint(tmp_path / "hf", MLX, made)
    with pytest.raises(TensorMismatch) as caught:
        plan_conversion(open_folder(folder), ModelSpec(repo="x"), dtype="F32")
    assert any(f"unexpected  {LAYER}.k_proj.biases" in found for found in caught.value.problems)


def test_parts_that_no_format_holds_name_the_recipe_that_would_do() -> None:
    """Zero points and biases in one fused projection; no single method writes that."""
    coded = open_golden("llama-awq")
    tensors = dict(presented(coded, find_quantisation(coded.config, "x")).tensors)
    other = open_golden("llama-odd-vocab-mlx-4bit")
    key = f"{LAYER}.k_proj.weight"
    tensors[key] = presented(other, find_quantisation(other.config, "x")).tensors[key]
    plain = {k: v for k, v in coded.config.items() if k != "quantization_config"}
    with pytest.raises(TensorMismatch) as caught:
        plan_conversion(
            replace(coded, config=plain, tensors=tensors), ModelSpec(repo="x"), dtype="F32"
        )
    [problem] = [found for found in caught.value.problems if found.startswith("format")]
    assert FUSED in problem
    assert "--recipe mlx-8bit" in problem
