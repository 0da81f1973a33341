"""What `masu capabilities` says is so: backends that load, formats that stay, reasons for the rest.

A claim is compared with what the backend does, not with the list it was taken from.
"""

import json
import subprocess
import sys
from typing import get_args

import pytest

import masu
from masu.inventory import FORMATS, BackendEntry
from masu.runtime.backends import backend_names, load_backend, why_not
from masu.specs.formats import WeightFormat
from masu.specs.formats.native import encoders


@pytest.fixture(scope="module")
def found() -> masu.Capabilities:
    return masu.capabilities()


def entry(found: masu.Capabilities, name: str) -> BackendEntry:
    return next(each for each in found.backends if each.name == name)


def test_every_backend_is_there_or_says_why_not(found: masu.Capabilities) -> None:
    assert [each.name for each in found.backends] == backend_names()
    for each in found.backends:
        assert each.why_not == why_not(each.name)
        assert bool(each.dtypes and each.devices) == each.available
    assert found.default_backend == load_backend().name


def test_a_backend_that_is_missing_names_what_to_install() -> None:
    if problem := why_not("mlx"):
        assert "masu[metal]" in problem
    script = (
        "import sys; sys.modules['mlx'] = None\n"
        "from masu.runtime.backends import why_not; print(why_not('mlx'))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "masu[metal]" in done.stdout


def test_every_format_is_tried_on_every_backend(found: masu.Capabilities) -> None:
    union, _ = get_args(WeightFormat)
    assert {type(form) for form in FORMATS.values()} == set(get_args(union))
    for each in found.backends:
        if each.available:
            assert sorted(each.in_place + each.decoded) == sorted(FORMATS)


def test_plain_backends_decode_everything_and_promise_nothing(found: masu.Capabilities) -> None:
    for name in ("jax", "numpy"):
        assert entry(found, name).in_place == ()
        assert entry(found, name).row_invariant == ()
        assert entry(found, name).instruction_set is None


def test_kernels_are_those_of_the_native_backend(found: masu.Capabilities) -> None:
    native = entry(found, "native")
    if not native.available:
        pytest.skip(str(native.why_not))
    assert {"Int 4-bit", "MLX 4-bit", "FullPrecision"} <= set(native.in_place)
    assert native.instruction_set
    assert native.roundings == ("int8",)
    assert {"linear", "norm", "attention"} <= set(native.row_invariant)


def test_mlx_keeps_integer_codes(found: masu.Capabilities) -> None:
    mlx = entry(found, "mlx")
    if not mlx.available:
        pytest.skip(str(mlx.why_not))
    assert {"Int 4-bit", "Int 8-bit", "MLX 4-bit", "MLX 8-bit"} <= set(mlx.in_place)
    assert "LloydMax 4-bit" in mlx.decoded
    assert mlx.row_invariant == ()


def test_names_are_those_that_other_commands_know(found: masu.Capabilities) -> None:
    assert {"rtn", "gptq"} <= set(found.methods)
    assert "int4" in found.recipes
    assert "uzu-0.6" in found.engines
    assert found.versions["masu"] == masu.__version__
    assert found.encoders_why_not == encoders.why_not()


def test_command_prints_it_for_people_and_for_programs(found: masu.Capabilities) -> None:
    command = [sys.executable, "-W", "error", "-m", "masu", "capabilities"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["default_backend"] == found.default_backend
    for told, each in zip(document["backends"], found.backends, strict=True):
        assert (told["name"], told["available"]) == (each.name, each.available)
        assert tuple(told["row_invariant"]) == each.row_invariant
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"backend {found.default_backend}, the default" in text
    assert all(recipe in text for recipe in found.recipes)
    assert (found.encoders_why_not or "compiled") in text
