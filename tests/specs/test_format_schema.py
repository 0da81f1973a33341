"""Weight specs are read strictly and written as lalamo writes them."""

import json

import pytest
from format_cases import SPECS

from masu.specs.errors import SchemaError
from masu.specs.formats import HybridSpec, WeightFormat, parse_spec

WHERE = "decoder.embedding.embedding.spec"


def parse(**fields: object) -> WeightFormat:
    return parse_spec(json.dumps(fields), WHERE)


@pytest.mark.parametrize("fields", SPECS, ids=json.dumps)
def test_specs_are_written_as_they_were_read(fields: dict) -> None:
    text = json.dumps(fields)
    spec = parse_spec(text, WHERE)
    assert spec.to_json() == text
    assert parse_spec(spec.to_json(), WHERE) == spec


@pytest.mark.parametrize("fields", SPECS, ids=json.dumps)
def test_every_field_is_required_and_no_other_allowed(fields: dict) -> None:
    for name in fields:
        with pytest.raises(SchemaError, match=f"{WHERE} is not of the format") as failure:
            parse(**{key: value for key, value in fields.items() if key != name})
        assert any(problem.startswith(f"{name}: missing") for problem in failure.value.problems)
    with pytest.raises(SchemaError, match="surplus: unknown field"):
        parse(**fields, surplus=None)


MLX = {"type": "MLXSpec", "bits": 4, "group_size": 32, "layout": "output_input"}
INT = {**MLX, "type": "IntSpec", "is_symmetric": True}
LLOYD = {**MLX, "type": "LloydMaxSpec", "bias_bits": None}
MICRO = {**MLX, "type": "MicrofloatSpec", "scale_mode": "nvfp4"}
HYBRID = {
    "type": "HybridSpec",
    "quantization_spec": MLX,
    "adapter_spec": None,
    "incoherence_block_size": 32,
    "incoherence_processing_mode": "output",
}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({**MLX, "type": "GPTQSpec"}, 'type: expected one of .*, found "GPTQSpec"'),
        ({**MLX, "bits": 2}, "bits: expected one of 1, 4, 8, found 2"),
        ({**MLX, "bits": 4.0}, "bits: expected one of 1, 4, 8, found 4.0"),
        ({**MLX, "bits": True}, "bits: expected one of 1, 4, 8, found true"),
        ({**MLX, "bits": "4"}, 'bits: expected one of 1, 4, 8, found "4"'),
        ({**MLX, "group_size": 0}, "group_size: expected an integer >= 1, found 0"),
        ({**MLX, "layout": "rows"}, "layout: expected one of .*, found"),
        ({**INT, "bits": 1}, "bits: expected one of 4, 8, found 1"),
        ({**INT, "is_symmetric": 1}, "is_symmetric: expected a boolean, found 1"),
        ({**LLOYD, "group_size": 8}, "group_size: expected one of 2, 4, 16, 32, 64, 128, found 8"),
        ({**LLOYD, "bias_bits": 5}, "bias_bits: expected one of 2, 3, 4, 6, 8 or null, found 5"),
        ({**MICRO, "bits": 8}, "bits: expected 4, found 8"),
        ({**MICRO, "scale_mode": "fp4"}, 'scale_mode: expected one of "mxfp4", "nvfp4", found'),
        ({"type": "LowRankSpec", "rank": 0}, "rank: expected an integer >= 1, found 0"),
        ({"type": "D4S4Spec", "layout": "output_input"}, 'layout: expected "input_output", found'),
        ({**HYBRID, "incoherence_block_size": 16}, "expected one of 32, 64, 128 or null, found 16"),
        ({**HYBRID, "incoherence_processing_mode": "none"}, 'found "none"'),
        (
            {**HYBRID, "quantization_spec": None},
            "quantization_spec: expected an object, found null",
        ),
        ({**HYBRID, "quantization_spec": HYBRID}, "quantization_spec.type: expected one of"),
        ({**HYBRID, "adapter_spec": {**MLX, "bits": 3}}, "adapter_spec.bits: expected one of 1, 4"),
    ],
)
def test_illegal_values_are_named(fields: dict, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        parse(**fields)


def test_text_that_is_no_json_object() -> None:
    for text in ("", "[]", '{"type": "LowRankSpec", "rank": 8, "rank": 9}', "null"):
        with pytest.raises(SchemaError, match=WHERE):
            parse_spec(text, WHERE)


@pytest.mark.parametrize(
    ("fields", "shape", "problem"),
    [
        (MLX, (4, 48), "48 columns are not a multiple of the group size 32"),
        (INT, (2, 4, 48), "48 columns are not a multiple of the group size 32"),
        (LLOYD, (4, 48), "48 columns are not a multiple of the group size 32"),
        (MICRO, (4, 48), "48 columns are not a multiple of the group size 32"),
        ({"type": "LowRankSpec", "rank": 5}, (4, 64), "rank 5 is above 4"),
        ({"type": "D4S4Spec", "layout": "input_output"}, (4, 64), "64 columns are not a multiple"),
        ({"type": "D4S4Spec", "layout": "input_output"}, (2, 4, 128), "a table has two axes"),
        (HYBRID, (40, 64), "40 channels are not a multiple of the Hadamard block 32"),
        (HYBRID, (40, 48), "group size 32; 40 channels"),
        ({**HYBRID, "incoherence_processing_mode": "input"}, (40, 96), None),
        ({**HYBRID, "incoherence_block_size": None}, (40, 96), None),
        ({**HYBRID, "adapter_spec": {"type": "LowRankSpec", "rank": 33}}, (32, 64), "rank 33"),
        ({"type": "FullPrecisionSpec", "layout": "input_output"}, (3, 5), None),
    ],
)
def test_shapes_that_a_format_cannot_keep(
    fields: dict, shape: tuple[int, ...], problem: str | None
) -> None:
    found = parse(**fields).problem(shape)
    assert found == problem if problem is None else problem in (found or "")


def test_channels_of_a_table_lie_along_its_columns() -> None:
    """Its output is the embedding, `[vocab, width]`: output signs are as many as columns."""
    table = parse(**{**HYBRID, "quantization_spec": {**MLX, "layout": "input_output"}})
    assert isinstance(table, HybridSpec)
    assert table.stored_layout == "input_output"
    assert table.arrays((323, 64), "BF16", "group_major").keys() == {
        "quantized.weights",
        "quantized.scales",
        "quantized.biases",
        "incoherence_signs.output_signs",
    }
    signs = table.arrays((323, 64), "BF16", "group_major")["incoherence_signs.output_signs"]
    assert str(signs) == "I32 [64]"
    assert table.problem((323, 64)) is None
