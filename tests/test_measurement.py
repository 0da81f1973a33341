"""A bench measures what it says, and tells memory as it is."""

import math
from collections import Counter

import pytest
from golden import GOLDEN
from tensor_sources import layers_of

import masu
from masu.specs.errors import NotAPackage, RequestError

PACKAGE = GOLDEN / "llama-tied" / "engine"
PER_ROUND = {"time_to_first_token", "prefill", "decode"}
ONCE = {"load", "weights_in_file", "weights_in_memory", "resident_after_load", "state", "resident",
        "peak", "compiled_programs", "kernel_programs"}  # fmt: skip


def test_every_figure_comes_with_its_settings() -> None:
    found = list(masu.bench(PACKAGE, backend="numpy", prompt_tokens=70, new_tokens=3, rounds=2))
    assert Counter(m.name for m in found) == {
        **dict.fromkeys(PER_ROUND, 3),
        **dict.fromkeys(ONCE, 1),
    }
    for name in PER_ROUND:
        assert [m.round for m in found if m.name == name] == [0, 1, 2]
    assert all(m.value is not None and m.value >= 0 and math.isfinite(m.value) for m in found)
    settings = found[0].settings
    assert all(m.settings == settings for m in found[:-1])
    assert found[-1].settings == {**settings, "reason": "the numpy backend makes none"}
    assert settings["package"] == str(PACKAGE)
    assert (settings["backend"], settings["dtype"]) == ("numpy", "float64")
    assert (settings["prompt_tokens"], settings["new_tokens"]) == (70, 3)
    assert {"masu", "jax", "numpy", "python", "cpu", "cores"} <= settings.keys()


def test_memory_is_what_is_held_not_what_is_stored() -> None:
    """JAX keeps float32 whatever is stored: twice the bfloat16 file, the tied table once."""
    found = {
        m.name: m.value
        for m in masu.bench(PACKAGE, backend="jax", prompt_tokens=3, new_tokens=2, rounds=1)
    }
    package = masu.Package.open(PACKAGE)
    values = sum(math.prod(array.shape) for array in package.tensors().values())
    assert found["weights_in_memory"] == 4 * values
    in_file = found["weights_in_file"]
    assert in_file is not None
    assert 2 * values < in_file < 2.1 * values
    layers = layers_of(package.config.model_dump()["decoder_config"])
    mixers = [layer["mixer_config"] for layer in layers]
    # Keys and values in bfloat16, with room for 256 tokens.
    assert found["state"] == sum(2 * 2 * 256 * m["num_groups"] * m["head_dim"] for m in mixers)
    peak, resident = found["peak"], found["resident"]
    assert peak is not None
    assert resident is None or peak >= resident > 4 * values
    assert found["compiled_programs"] == 5
    assert found["compiled_programs.layer.apply"] == 2


def test_what_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(
        RequestError, match=r"512 prompt tokens and 64 new ones: .* at most 512 tokens, not 576"
    ):
        masu.bench(PACKAGE, backend="numpy")
    for tokens, new, rounds in ((0, 2, 1), (1, 1, 1), (1, 2, 0)):
        with pytest.raises(RequestError, match="at least"):
            masu.bench(PACKAGE, prompt_tokens=tokens, new_tokens=new, rounds=rounds)
    with pytest.raises(NotAPackage):
        masu.bench(GOLDEN / "llama-tied" / "hf")


@pytest.mark.parametrize(("backend", "reason"), [("native", None), ("numpy", "the numpy backend")])
def test_it_says_whether_a_step_is_a_program_of_kernels(backend: str, reason: str | None) -> None:
    try:
        found = masu.bench(PACKAGE, backend=backend, prompt_tokens=3, new_tokens=2, rounds=1)
    except RequestError as missing:
        pytest.skip(str(missing))
    *_, last = found
    assert (last.name, last.value) == ("kernel_programs", float(reason is None))
    assert str(last.settings.get("reason")).startswith(str(reason))
