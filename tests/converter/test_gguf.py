"""GGUF files give the same checkpoint as the Hugging Face folder they were written from."""

import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_files import decoded, hf_config, hf_tensors, meta_rope_factors, write_gguf
from golden import GOLDEN

from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.config import read_config
from masu.converter.families import load_family
from masu.converter.sources.folder import open_folder
from masu.converter.sources.gguf import open_gguf
from masu.converter.sources.gguf_header import read_header
from masu.converter.sources.gguf_table import decodable
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import (
    ConfigError,
    MasuError,
    SourceError,
    SourceNotFound,
    TensorMismatch,
    TextError,
    UnknownFamily,
)

# `qwen3` has windows, which llama.cpp's qwen3 has not; `qwen3-yarn` has no biases.
CASES = ["llama", "llama-tied", "qwen2", "qwen3", "qwen3-yarn", "gemma3-text"]
PLAIN = ["F32", "F16", "BF16"]
QUANTISED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]

NOT_IN_GGUF = {
    "_sliding_window_pattern", "attention_dropout", "initializer_range", "max_window_layers",
    "pretraining_tp", "transformers_version", "use_cache",
}  # fmt: skip
"""Keys of the golden configs that change no output, or that other keys decide."""


def read(tensor: SourceTensor) -> np.ndarray:
    return tensor.read(0, tensor.shape[0])


@pytest.mark.parametrize("kind", [*PLAIN, *QUANTISED])
@pytest.mark.parametrize("case", CASES)
def test_tensors_are_those_of_the_folder(case: str, kind: str, tmp_path: Path) -> None:
    found = open_gguf(write_gguf(tmp_path / "a.gguf", case, kind)).tensors
    expected = hf_tensors(case)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        tensor = found[name]
        assert tensor.name == name
        assert tensor.shape == values.shape
        stored = kind if values.ndim > 1 else "F32"
        assert tensor.dtype == (stored if stored in PLAIN else "F32")
        assert tensor.decoded_from == (None if stored in PLAIN else stored)
        result = read(tensor)
        assert result.dtype == NUMPY_DTYPES[tensor.dtype]
        if case == "gemma3-text" and name.endswith("norm.weight"):
            # The sum with 1 was rounded to float32.
            np.testing.assert_allclose(result, values.astype(np.float32), rtol=0, atol=2**-24)
        else:
            np.testing.assert_array_equal(result, decoded(values, stored))


@pytest.mark.parametrize("kind", ["BF16", "Q4_1"])
@pytest.mark.parametrize("case", ["llama", "gemma3-text"])
def test_any_rows_are_those_of_the_whole(case: str, kind: str, tmp_path: Path) -> None:
    tensors = open_gguf(write_gguf(tmp_path / "a.gguf", case, kind)).tensors
    for tensor in tensors.values():
        whole, rows = read(tensor), tensor.shape[0]
        for start, stop in [(0, 1), (3, 4), (1, rows), (rows // 2 - 1, rows // 2 + 2), (5, 5)]:
            np.testing.assert_array_equal(tensor.read(start, stop), whole[start:stop])
        with pytest.raises(IndexError):
            tensor.read(0, rows + 1)


def test_only_plain_unchanged_tensors_have_a_range_to_copy(tmp_path: Path) -> None:
    tensors = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", "BF16")).tensors
    for name, tensor in tensors.items():
        changed = ".q_proj." in name or ".k_proj." in name
        assert (tensor.raw is None) == changed
        if tensor.raw is not None:
            data = tensor.raw.path.read_bytes()
            raw = data[tensor.raw.offset :][: tensor.raw.length]
            assert raw == read(tensor).tobytes()
    quantised = open_gguf(write_gguf(tmp_path / "b.gguf", "llama", "Q8_0")).tensors
    assert quantised["model.layers.0.mlp.up_proj.weight"].raw is None
    assert quantised["model.layers.0.mlp.up_proj.weight"].stored.length == 128 * 64 // 32 * 34
    norms = open_gguf(write_gguf(tmp_path / "c.gguf", "gemma3-text", "BF16")).tensors
    assert norms["model.norm.weight"].raw is None


def test_biases_of_queries_and_keys_are_put_back_in_order(tmp_path: Path) -> None:
    bias = np.arange(64, dtype=np.float32)

    def add(writer: gguf.GGUFWriter) -> None:
        order = [h * 16 + p + half * 8 for h in range(4) for p in range(8) for half in (0, 1)]
        writer.add_tensor("blk.0.attn_q.bias", bias[order])

    checkpoint = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=add))
    np.testing.assert_array_equal(
        read(checkpoint.tensors["model.layers.0.self_attn.q_proj.bias"]), bias
    )
    assert checkpoint.config["attention_bias"] is True


@pytest.mark.parametrize("case", CASES)
def test_config_is_that_of_the_folder(case: str, tmp_path: Path) -> None:
    found = dict(open_gguf(write_gguf(tmp_path / "a.gguf", case, "BF16")).config)
    expected = {k: v for k, v in hf_config(case).items() if k not in NOT_IN_GGUF}
    first_end = np.atleast_1d(expected["eos_token_id"]).tolist()[0]
    expected["eos_token_id"] = first_end  # the others are in generation_config.json
    if case.startswith("qwen"):
        del expected["layer_types"]
        expected |= {"use_sliding_window": False, "sliding_window": None}
    if case == "gemma3-text":
        expected["query_pre_attn_scalar"] = expected["head_dim"]  # llama.cpp has no other
    assert found == expected


@pytest.mark.parametrize("case", ["llama", "llama-tied", "qwen2", "qwen3-yarn", "gemma3-text"])
def test_families_read_the_config_as_they_read_the_folder(case: str, tmp_path: Path) -> None:
    def engine_config(checkpoint: Checkpoint, **changes: Any) -> Any:
        raw = {**checkpoint.config, **changes}
        family = load_family(raw["model_type"])
        config, _ = read_config(family.config, raw, case)
        return family.decoder(config)

    found = engine_config(open_gguf(write_gguf(tmp_path / "a.gguf", case)))
    changes = {"query_pre_attn_scalar": 32} if case == "gemma3-text" else {}
    assert found == engine_config(open_folder(GOLDEN / case / "hf"), **changes)


@pytest.mark.parametrize(
    ("factor", "context"), [(8.0, 8192), (32.0, 8192), (8.0, 64), (4.0, 300), (1.5, 100)]
)
def test_llama3_factors_become_their_parameters(
    factor: float, context: int, tmp_path: Path
) -> None:
    config = hf_config("llama")
    config["rope_parameters"] |= {"factor": factor, "original_max_position_embeddings": context}
    factors = meta_rope_factors(config)

    def replace(writer: gguf.GGUFWriter) -> None:
        writer.tensors[0]["rope_freqs.weight"].tensor = factors

    found = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=replace))
    assert found.config["rope_parameters"] == config["rope_parameters"]


def test_other_rope_factors_are_refused(tmp_path: Path) -> None:
    def replace(writer: gguf.GGUFWriter) -> None:
        writer.tensors[0]["rope_freqs.weight"].tensor = np.linspace(1, 8, 8, dtype=np.float32)

    with pytest.raises(ConfigError, match=r"rope_freqs\.weight"):
        open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=replace))


def test_a_quantised_file_says_nothing_of_its_dtype(tmp_path: Path) -> None:
    assert "dtype" not in open_gguf(write_gguf(tmp_path / "a.gguf", "qwen2", "Q8_0")).config


@pytest.mark.parametrize("pattern", [2, [False, True, True, False]])
def test_gemma_windows(pattern: int | list[bool], tmp_path: Path) -> None:
    key = "gemma3.attention.sliding_window_pattern"

    def change(writer: gguf.GGUFWriter) -> None:
        del writer.kv_data[0][key]
        if isinstance(pattern, int):
            writer.add_uint32(key, pattern)
        else:
            writer.add_array(key, pattern)

    full = {2: [1, 3]}.get(pattern, [0, 3]) if isinstance(pattern, int) else [0, 3]
    config = open_gguf(write_gguf(tmp_path / "a.gguf", "gemma3-text", edit=change)).config
    assert [i for i, name in enumerate(config["layer_types"]) if name == "full_attention"] == full
    without = ("gemma3.attention.sliding_window",)
    config = open_gguf(write_gguf(tmp_path / "b.gguf", "gemma3-text", without=without)).config
    assert set(config["layer_types"]) == {"full_attention"}


def test_every_key_is_used_or_inert(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_string("quantize.imatrix.file", "x")
        writer.add_quantization_version(2)
        writer.add_uint32("tokenizer.ggml.fim_pre_token_id", 1)
        writer.add_bool("llama.rope.scaling.finetuned", True)
        writer.add_float32("general.sampling.mirostat_tau", 5.0)

    inert = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=add)).inert_keys
    assert set(inert) == {
        "general.name",
        "general.file_type",
        "quantize.imatrix.file",
        "tokenizer.ggml.fim_pre_token_id",
        "llama.rope.scaling.finetuned",
        "general.sampling.mirostat_tau",
    }
    assert all(inert.values())


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("llama.attention.scale", 0.5, ConfigError),
        ("llama.expert_count", 8, ConfigError),
        ("llama.rope.scaling.attn_factor", 1.2, ConfigError),
        ("llama.rope.scaling.yarn_ext_factor", 0.0, ConfigError),
        ("llama.rope.scaling.type", "longrope", ConfigError),
        ("tokenizer.ggml.precompiled_charsmap", "x", TextError),
        ("tokenizer.ggml.add_sep_token", True, TextError),
        ("general.quantization_version", 1, ConfigError),
        ("general.type", "adapter", ConfigError),
        ("split.count", 3, ConfigError),
    ],
)
def test_keys_that_change_what_is_computed_are_refused(
    key: str, value: Any, error: type[MasuError], tmp_path: Path
) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0].pop(key, None)
        kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        kinds.get(type(value), writer.add_string)(key, value)

    with pytest.raises(error) as caught:
        open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=add))
    assert any(problem.startswith(f"{key}: ") for problem in caught.value.problems)


def test_a_part_of_a_file_says_what_to_do(tmp_path: Path) -> None:
    """The second part has no keys about the model at all."""
    path = tmp_path / "model-00002-of-00003.gguf"
    path.write_bytes(_header(_pair(b"split.count", 2, struct.pack("<H", 3))))
    with pytest.raises(ConfigError, match=r"split\.count") as caught:
        open_gguf(path)
    assert "merge" in str(caught.value.hint)


def test_all_missing_and_contradicting_keys_are_named(tmp_path: Path) -> None:
    missing = ("llama.block_count", "llama.attention.head_count")
    with pytest.raises(ConfigError) as caught:
        open_gguf(write_gguf(tmp_path / "a.gguf", "llama", without=missing))
    assert [p.split(":")[0] for p in caught.value.problems] == list(missing)

    def contradict(writer: gguf.GGUFWriter) -> None:
        for key in ("llama.vocab_size", "llama.rope.dimension_count"):
            writer.kv_data[0].pop(key)
            writer.add_uint32(key, 3)

    with pytest.raises(ConfigError) as caught:
        open_gguf(write_gguf(tmp_path / "b.gguf", "llama", edit=contradict))
    assert len(caught.value.problems) == 2


def test_numbers_per_layer_must_agree(tmp_path: Path) -> None:
    def layers(values: list[int]) -> Callable[[gguf.GGUFWriter], None]:
        def edit(writer: gguf.GGUFWriter) -> None:
            del writer.kv_data[0]["llama.feed_forward_length"]
            writer.add_feed_forward_length(values)

        return edit

    config = open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=layers([128, 128]))).config
    assert config["intermediate_size"] == 128
    with pytest.raises(ConfigError, match="the same number for all layers"):
        open_gguf(write_gguf(tmp_path / "b.gguf", "llama", edit=layers([128, 96])))


def test_unknown_tensors_and_architectures_are_refused(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("blk.0.ffn_gate_inp.weight", np.zeros((4, 64), np.float32))
        writer.add_tensor("blk.{i}.attn_q.weight", np.zeros((64, 64), np.float32))

    with pytest.raises(TensorMismatch) as caught:
        open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=add))
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "blk.0.ffn_gate_inp.weight",
        "blk.{i}.attn_q.weight",
    ]

    def rename(writer: gguf.GGUFWriter) -> None:
        del writer.kv_data[0]["general.architecture"]
        writer.add_string("general.architecture", "mamba")

    with pytest.raises(UnknownFamily, match="mamba"):
        open_gguf(write_gguf(tmp_path / "b.gguf", "llama", edit=rename))


@pytest.mark.parametrize("kind", [k.name for k in gguf.GGMLQuantizationType])
def test_every_type_of_the_library_is_decoded_or_refused_by_name(kind: str, tmp_path: Path) -> None:
    quantisation = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[quantisation]
    blocks = np.random.default_rng(1).integers(0, 100, (64, 2 * size), np.uint8)

    def replace(writer: gguf.GGUFWriter) -> None:
        del writer.tensors[0]["blk.0.ffn_down.weight"]
        writer.add_tensor("blk.0.ffn_down.weight", blocks, raw_dtype=quantisation)

    path = write_gguf(tmp_path / "a.gguf", "llama", edit=replace)
    if not decodable(quantisation):
        with pytest.raises(SourceError) as caught:
            open_gguf(path)
        assert caught.value.problems == (f"blk.0.ffn_down.weight: no decoder for the type {kind}",)
        return
    tensor = open_gguf(path).tensors["model.layers.0.mlp.down_proj.weight"]
    assert tensor.shape == (64, 2 * block)
    result = tensor.read(5, 60).astype(np.float32)
    np.testing.assert_array_equal(result, gguf.quants.dequantize(blocks[5:60], quantisation))


def test_the_header_is_what_the_library_reads(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", "gemma3-text", "Q4_0")
    header, library = read_header(path), gguf.GGUFReader(path)
    assert [(t.name, t.kind, t.offset, t.length, t.shape) for t in header.tensors.values()] == [
        (t.name, t.tensor_type, t.data_offset, t.n_bytes, tuple(t.shape[::-1].tolist()))
        for t in library.tensors
    ]
    for key, value in header.metadata.items():
        expected = library.fields[key].contents()
        if isinstance(value, float):
            assert np.float32(value) == np.float32(expected)
        else:
            assert np.array_equal(value, expected)
    assert header.metadata.keys() == {k for k in library.fields if not k.startswith("GGUF.")}


# Hostile and damaged files.


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "good.gguf"
    return write_gguf(path, "llama-tied", "Q8_0").read_bytes()


def refuse(data: bytes, tmp_path: Path, match: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=match):
        open_gguf(path)


def test_missing_empty_and_foreign_files(good: bytes, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        open_gguf(tmp_path / "none.gguf")
    with pytest.raises(SourceNotFound):
        open_gguf(tmp_path)
    refuse(b"", tmp_path, "not a GGUF file")
    refuse(b"<!doctype html>" + good[15:], tmp_path, "not a GGUF file")
    refuse(good[:4] + struct.pack("<I", 1) + good[8:], tmp_path, "version 1")
    refuse(good[:4] + struct.pack(">I", 3) + good[8:], tmp_path, "big-endian")


def test_truncated_files(good: bytes, tmp_path: Path) -> None:
    lengths = [*range(1, 600, 23), *range(600, len(good), len(good) // 40), len(good) - 1]
    for length in lengths:
        refuse(good[:length], tmp_path, "not a GGUF file|ends within its header|follow|truncated")


@pytest.mark.parametrize("place", [8, 16], ids=["tensors", "keys"])
@pytest.mark.parametrize("count", [2**16, 2**32, 2**64 - 1])
def test_absurd_counts_take_no_memory(place: int, count: int, good: bytes, tmp_path: Path) -> None:
    data = good[:place] + struct.pack("<Q", count) + good[place + 8 :]
    tracemalloc.start()
    try:
        refuse(data, tmp_path, r"says that [0-9,]+|header")
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


def _pair(key: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


def _header(pairs: bytes, count: int = 1, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, count) + pairs


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        (_pair(b"a", 8, struct.pack("<Q", 2**63)), "ends within its header"),
        (_pair(b"a", 9, struct.pack("<IQ", 0, 2**62)), "says that"),
        (_pair(b"a", 9, struct.pack("<IQ", 8, 2**62)), "says that"),
        (_pair(b"a", 9, struct.pack("<IQ", 9, 1) + bytes(64)), "array of arrays"),
        (_pair(b"a", 9, struct.pack("<IQ", 99, 1) + bytes(64)), "unknown type 99"),
        (_pair(b"a", 77, bytes(64)), "unknown type 77"),
        (_pair(b"\xff", 4, bytes(64)), "not UTF-8"),
        (_pair(b"a", 8, struct.pack("<Q", 1) + b"\xff" + bytes(64)), "not UTF-8"),
        (_pair(b"general.alignment", 4, struct.pack("<I", 3) + bytes(64)), "power of two"),
    ],
)
def test_malformed_metadata(pairs: bytes, match: str, tmp_path: Path) -> None:
    refuse(_header(pairs), tmp_path, match)


def test_a_key_or_a_tensor_may_not_appear_twice(good: bytes, tmp_path: Path) -> None:
    pair = _pair(b"a", 4, bytes(4))
    refuse(_header(pair + pair, count=2), tmp_path, "'a' appears twice")
    refuse(good.replace(b"blk.0.attn_v.weight", b"blk.0.attn_q.weight"), tmp_path, "twice")


def _entry(shape: list[int], kind: int, offset: int) -> bytes:
    name = b"token_embd.weight"
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return struct.pack("<Q", len(name)) + name + axes + struct.pack("<IQ", kind, offset)


@pytest.mark.parametrize(
    ("shape", "kind", "offset", "match"),
    [
        ([32, 4], 0, 2**63, "expected at byte"),
        ([32, 4], 0, 64, "expected at byte"),
        ([32, 2**40], 0, 0, "truncated"),
        ([2**40, 2**40], 0, 0, "that of no weight"),
        ([32, 0], 0, 0, "that of no weight"),
        ([33, 4], 8, 0, "whole blocks of 32"),
        ([32, 4], 4, 0, "unknown type number 4"),
        ([32, 4], 1000, 0, "unknown type number 1000"),
        ([32, 4, 1, 1, 1], 0, 0, "1 to 4 axes"),
        ([32, 3], 0, 0, "belong to no tensor"),
    ],
)
def test_malformed_tables(
    shape: list[int], kind: int, offset: int, match: str, tmp_path: Path
) -> None:
    head = _header(_entry(shape, kind, offset), count=0, tensors=1)
    data = head + bytes(-len(head) % 32) + bytes(32 * 4 * 4)
    refuse(data, tmp_path, match)


def test_flipped_bytes_never_surprise(good: bytes, tmp_path: Path) -> None:
    """Whatever a damaged header says, it opens or fails in words."""
    chosen = random.Random(7)
    path = tmp_path / "flipped.gguf"
    header = good.index(b"output_norm.weight") + 2000
    outcomes = set()
    for _ in range(300):
        data = bytearray(good)
        for _ in range(chosen.choice([1, 1, 4])):
            data[chosen.randrange(header)] = chosen.randrange(256)
        path.write_bytes(data)
        try:
            open_gguf(path)
            outcomes.add("opened")
        except MasuError as error:
            outcomes.add(type(error).__name__)
    assert {"opened", "SourceError", "ConfigError", "TextError"} <= outcomes


def test_a_file_cut_short_after_it_was_opened(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", "llama", "Q8_0")
    tensor = open_gguf(path).tensors["model.layers.1.mlp.down_proj.weight"]
    path.write_bytes(path.read_bytes()[: tensor.stored.offset + 100])
    with pytest.raises(SourceError, match="cut short"):
        read(tensor)


def test_infinite_scales_are_values_not_warnings(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", "qwen2", "Q8_0")
    tensor = open_gguf(path).tensors["model.layers.0.mlp.down_proj.weight"]
    data = bytearray(path.read_bytes())
    data[tensor.stored.offset : tensor.stored.offset + 2] = np.float16(np.inf).tobytes()
    path.write_bytes(data)
    assert not np.isfinite(read(tensor)[0, :32]).any()
