"""Packages that recipes made: loaded strictly, and as close to their source as they must be."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN

import masu
from masu.planning import plan
from masu.quantisation import quantize
from masu.quantizers.calibration_text import read_calibration
from masu.quantizers.plan import plan_quantisation
from masu.quantizers.sensitivity import sensitivities
from masu.quantizers.stream_source import StreamSource
from masu.runtime.network import load_network
from masu.specs.errors import EngineError, OutputError, RecipeError, RequestError
from masu.specs.formats import D4S4Spec, FullPrecisionSpec, HybridSpec, MLXSpec
from masu.specs.package import Package
from masu.specs.package_stream import stream_of
from masu.specs.recipe import Promotion, Recipe, Rule
from masu.verdict import consistent

TIED = GOLDEN / "llama-tied"
IDS = np.arange(24) * 7 % 300
MLX4 = {"type": "MLXSpec", "bits": 4, "group_size": 32}
INT4 = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}


def rotated(core: dict, mode: str) -> dict:
    return {
        "type": "HybridSpec",
        "quantization_spec": core,
        "incoherence_block_size": 32,
        "incoherence_processing_mode": mode,
    }


def recipe(*rules: Rule, **fields: object) -> Recipe:
    return Recipe.model_validate({"name": "own", "description": "", "rules": rules, **fields})


def logits(path: Path) -> np.ndarray:
    return load_network(Package.open(path), dtype="float32", backend="numpy").logits(IDS)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / expected.std())


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square; 1.41 between two models that have nothing to do with each other."""
    return float(np.sqrt(np.square(found - expected).mean()) / expected.std())


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    return logits(TIED / "engine")


def test_a_package_is_converted_and_quantised_in_one_stream(tmp_path: Path) -> None:
    """The same bytes as in two steps: the source is bfloat16, so nothing is rounded between."""
    masu.convert(TIED / "hf", tmp_path / "plain", verify=False)
    quantize(tmp_path / "plain", tmp_path / "two", "mlx-4bit")
    masu.convert(TIED / "hf", tmp_path / "one", recipe="mlx-4bit", verify=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    recorded = json.loads((tmp_path / "one" / "manifest.json").read_text())["recipe"]
    assert recorded["recipe"]["name"] == "mlx-4bit"
    applied = recorded["applied"]["decoder.embedding.embedding"]
    assert applied == {"rule": "*", "method": "mlx"}


def test_rotations_alone_change_nothing(tmp_path: Path, reference: np.ndarray) -> None:
    plain = {"type": "FullPrecisionSpec"}
    rules = (
        Rule(match="*", format=rotated(plain, "input_output")),
        Rule(match="embedding", format=rotated(plain, "output")),
    )
    masu.convert(
        TIED / "hf", tmp_path / "out", recipe=recipe(*rules), dtype="float32", verify=False
    )
    # Two transforms of 32 in float32 in each of the layers; wrong signs change it by more than 1.
    assert distance(logits(tmp_path / "out"), reference) < 1e-4


def test_untying_alone_changes_nothing(tmp_path: Path, reference: np.ndarray) -> None:
    whole = recipe(Rule(match="readout", format={"type": "FullPrecisionSpec"}), untie=True)
    quantize(TIED / "engine", tmp_path / "out", whole)
    package = Package.open(tmp_path / "out")
    assert {"input_embedding", "output_embedding"} <= {n.split(".")[-1] for n in package.formats}
    assert np.array_equal(logits(tmp_path / "out"), reference)


def test_untied_models_cannot_be_untied(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="not tied"):
        quantize(
            GOLDEN / "llama" / "engine",
            tmp_path / "out",
            recipe(Rule(match="*", format=MLX4), untie=True),
        )
    with pytest.raises(RecipeError, match="quantised already"):
        quantize(
            GOLDEN / "llama-tied-mlx-embedding" / "engine",
            tmp_path / "out",
            recipe(Rule(match="*", format=MLX4), untie=True),
        )


def test_more_bits_are_closer(tmp_path: Path, reference: np.ndarray) -> None:
    errors: dict[int, float] = {}
    for bits in (8, 4):
        out = tmp_path / str(bits)
        quantize(TIED / "engine", out, recipe(Rule(match="*", format={**MLX4, "bits": bits})))
        errors[bits] = error(logits(out), reference)
    assert 10 * errors[8] < errors[4] < 0.6


def test_calibrated_codes_of_a_rotated_model(tmp_path: Path, reference: np.ndarray) -> None:
    rules = (
        Rule(match="*", format=rotated(INT4, "input_output"), method="gptq"),
        Rule(match="embedding", format=rotated(INT4, "output"), method="gptq"),
    )
    text = tmp_path / "text.txt"
    text.write_text("The box holds what was measured, and when it is full nothing is left. " * 12)
    made = quantize(TIED / "engine", tmp_path / "out", recipe(*rules), calibration=text)
    package = Package.open(tmp_path / "out")
    assert all(isinstance(each, HybridSpec) for each in package.formats.values())
    assert error(logits(tmp_path / "out"), reference) < 0.8
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # A table has no inputs whose moments could guide the codes: it is rounded to nearest.
    assert made.assignments["decoder.embedding.embedding"].method == "rtn"


def test_calibration_text_that_is_missing_or_short(tmp_path: Path) -> None:
    package = Package.open(TIED / "engine")
    source = StreamSource.of(package.config, stream_of(package))  # pyright: ignore
    tokenizer = (TIED / "engine" / "tokenizer.json").read_bytes()
    with pytest.raises(RequestError, match=r"nowhere\.txt cannot be read"):
        read_calibration(source, tokenizer, tmp_path / "nowhere.txt")
    (tmp_path / "short.txt").write_text("a few words")
    with pytest.raises(RequestError, match="at least 32 tokens"):
        read_calibration(source, tokenizer, tmp_path / "short.txt")
    own = read_calibration(source, tokenizer)
    assert all(len(ids) >= 32 for ids in own.sequences)
    assert (own.record.kind, own.record.name, own.record.seed) == ("own", None, None)
    assert own.record.tokens == sum(map(len, own.sequences))


def test_a_calibration_text_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="nothing here is calibrated"):
        quantize(TIED / "engine", tmp_path / "out", "int8", calibration=tmp_path / "text.txt")
    with pytest.raises(RequestError, match="nothing here is calibrated"):
        masu.convert(TIED / "hf", tmp_path / "out", calibration="generated", verify=False)
    assert not list(tmp_path.iterdir())


def test_the_consistent_verdict_says_what_codes_cost(tmp_path: Path) -> None:
    """The source is bfloat16 like the package: all that is lost is lost to 4 bits."""
    masu.convert(TIED / "hf", tmp_path / "out", recipe="int4", verify=False)
    coded = consistent(tmp_path / "out", plan(TIED / "hf", recipe="int4").conversion)
    assert coded.passed
    assert coded.rounding > 0.1
    masu.convert(TIED / "hf", tmp_path / "plain", verify=False)
    assert consistent(tmp_path / "plain", plan(TIED / "hf").conversion).rounding == 0


def test_promotion_goes_where_rounding_costs_the_most(tmp_path: Path) -> None:
    """One projection is made worse by a huge column; it is the one that gets more bits."""
    promotion = Promotion(format={**MLX4, "bits": 8}, share=0.15)
    own = recipe(Rule(match="*", format=MLX4), promotion=promotion)
    package = Package.open(TIED / "engine")
    config, stream = package.config, stream_of(package)
    assert config.type == "LanguageModelConfig"
    planned = plan_quantisation(
        recipe(Rule(match="*", format=MLX4)), config, stream, "BF16", "group_major"
    )
    costs = sensitivities(planned, IDS)
    assert costs.keys() == package.formats.keys()
    assert all(cost > 0 for cost in costs.values())
    made = quantize(TIED / "engine", tmp_path / "out", own)
    better = [
        n
        for n, a in made.assignments.items()
        if isinstance(a.format, MLXSpec) and a.format.bits == 8
    ]
    sizes = {name: np.prod(each.shape) for name, each in made.assignments.items()}
    assert better
    assert sum(sizes[name] for name in better) <= 0.15 * sum(sizes.values())
    worst = max(costs, key=lambda name: costs[name] / sizes[name] if sizes[name] < 2e4 else 0)
    assert worst in better


def test_experts_and_routers_have_roles_of_their_own(tmp_path: Path) -> None:
    rules = (
        Rule(match="*", format=INT4),
        Rule(
            match="experts",
            format={"type": "MicrofloatSpec", "bits": 4, "group_size": 16, "scale_mode": "mxfp4"},
        ),
        Rule(match="router", format=None),
    )
    source = GOLDEN / "qwen3_moe" / "hf"
    masu.convert(source, tmp_path / "out", recipe=recipe(*rules), verify=True)
    kinds = {
        name.split(".")[-2]: type(each).__name__
        for name, each in Package.open(tmp_path / "out").formats.items()
        if "mlp" in name
    }
    assert kinds["router"] == "FullPrecisionSpec"
    assert "MicrofloatSpec" in kinds.values()


def test_wide_tables_become_d4s4(tmp_path: Path) -> None:
    """Of a width that D4S4 has; the package is loaded, and its rows are near the source's."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=320,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    source = tmp_path / "hf"
    LlamaForCausalLM(config).save_pretrained(source)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TIED / "hf" / name, source / name)
    rules = (
        Rule(match="*", format=INT4),
        Rule(match="embedding", format={"type": "D4S4Spec"}),
    )
    own = recipe(*rules, untie=True)
    masu.convert(source, tmp_path / "out", recipe=own, verify=True)
    package = Package.open(tmp_path / "out")
    assert isinstance(package.formats["decoder.embedding.input_embedding"], D4S4Spec)
    [table] = [t for t in stream_of(package) if t.name.endswith(".input_embedding")]
    [before] = [t for t in plan(source).conversion.stream if t.name.endswith(".embedding")]
    expected = before.read(0, 320)
    relative = np.linalg.norm(table.read(0, 320) - expected) / np.linalg.norm(expected)
    assert relative**2 < 0.1  # measured on normal rows: 0.092; any reordering leaves 2


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    quantize(TIED / "engine", tmp_path / "out", "int8")
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    with pytest.raises(OutputError, match="already there"):
        quantize(TIED / "engine", tmp_path / "out", "int4")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    quantize(TIED / "engine", tmp_path / "out", "int4", overwrite=True)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() != before


def test_packages_keep_their_codes_by_themselves(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="keep is for quantised sources"):
        quantize(TIED / "engine", tmp_path / "out", "keep")


def test_untouched_matrices_are_copied(tmp_path: Path) -> None:
    quantize(TIED / "engine", tmp_path / "out", recipe(Rule(match="mlp", format=MLX4)))
    before, after = Package.open(TIED / "engine"), Package.open(tmp_path / "out")
    for name, each in after.formats.items():
        if isinstance(each, FullPrecisionSpec):
            array = f"{name}.weights"
            assert before.read(array).tobytes() == after.read(array).tobytes()


def test_kept_codes_for_an_older_engine_take_two_steps(tmp_path: Path) -> None:
    """Its planes lie the other way; converting and migrating turns them."""
    source = GOLDEN / "llama-mlx-4bit-g64" / "hf"
    with pytest.raises(EngineError, match=r"cannot be written for uzu-0\.5"):
        plan(source, engine="uzu-0.5")
    masu.convert(source, tmp_path / "new", verify=False)
    masu.migrate(tmp_path / "new", tmp_path / "old", engine="uzu-0.5")
    assert Package.open(tmp_path / "old").planes == "row_major"
