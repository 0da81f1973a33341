"""NEON makes the bits of AVX2, and portable code the same bits on ARM and x86.

Both are built from the kernels' sources and run on the same inputs, ARM's under an emulator; the
compiler's warnings are errors there. That AVX2 is right is for test_native_kernels.py to say. A
product and a sum are rounded once where they are fused, as in NEON, and twice in portable code:
these two differ by that, within the bounds stated here.
"""

import platform
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from driver_runs import (
    DRIVERS,
    Machine,
    Records,
    arm,
    build_flags,
    host,
    native_sources,
    other_bits,
    records,
)

UNIT = 2.0**-24
SETS = {"portable": (), "neon": ("-DMASU_NEON",)}
AVX2 = ("-DMASU_AVX2", "-mavx2", "-mfma", "-mf16c")

# Halves of the last place of a record's largest number, in float32; half of it was seen. Narrow
# numbers may be one more of their own last places apart, where two roundings part.
UNITS = 8
SOFTPLUS = "activate/7/"  # the one function that is the C library's, whose machines differ


def x86() -> Machine:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("this is no x86 processor to compare with")
    return host()


def has_avx2() -> bool:
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text(encoding="utf-8").split() if cpu.exists() else []
    return {"avx2", "fma", "f16c"} <= set(flags)


def primitives(machine: Machine, folder: Path, name: str, *flags: str) -> Records:
    program = machine.build(folder / f"primitives-{name}", [DRIVERS / "primitives.cpp"], *flags)
    return records(machine.run(program))


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Records]:
    """What the primitives of each instruction set make on ARM."""
    machine, folder = arm(), tmp_path_factory.mktemp("arm")
    return {name: primitives(machine, folder, name, *flags) for name, flags in SETS.items()}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the kernels of each instruction set make on ARM, and the name of the one in use."""
    machine, folder = arm(), tmp_path_factory.mktemp("arm")
    program = machine.build(folder / "kernels", [DRIVERS / "kernels.cpp", *native_sources()])
    return {"in use": machine.run(program)} | {name: machine.run(program, name) for name in SETS}


@pytest.mark.slow
@pytest.mark.parametrize(("arms", "flags"), [("portable", ()), ("neon", AVX2)])
def test_primitives_make_the_same_bits_on_x86(
    lanes: dict[str, Records], tmp_path: Path, arms: str, flags: tuple[str, ...]
) -> None:
    """Every narrow float, numbers around each, special numbers in pairs, and random ones."""
    machine = x86()
    if flags and not has_avx2():
        pytest.skip("this processor has no avx2")
    assert not other_bits(lanes[arms], primitives(machine, tmp_path, "x86", *flags))


@pytest.mark.slow
def test_primitives_of_neon_and_portable_code(lanes: dict[str, Records]) -> None:
    assert set(other_bits(lanes["neon"], lanes["portable"])) <= {"fma", "sum16", "exp", "tanh"}
    distance, size = apart(lanes, "fma", slice(1024, None))  # after the special numbers
    product = np.abs(lanes["neon"]["multiply"][1024:].astype(np.float64))
    # The product is rounded in one of them, the sum in both.
    assert (distance <= UNIT * (product + 2 * size) * (1 + 2**-20)).all()
    distance, _ = apart(lanes, "sum16")
    # Sixteen numbers of at most 2, added in four levels, each in its own order.
    assert distance.max() <= 2 * 4 * UNIT * 32
    distance, size = apart(lanes, "exp")
    assert (distance <= 4 * UNIT * size).all()
    distance, _ = apart(lanes, "tanh")
    assert distance.max() <= 4 * UNIT


def apart(
    lanes: dict[str, Records], name: str, part: slice = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """How far NEON's finite numbers are from those of portable code, and how large these are."""
    found, wanted = (lanes[arms][name][part].astype(np.float64) for arms in ("neon", "portable"))
    finite = np.isfinite(wanted)
    assert (finite == np.isfinite(found)).all()
    return np.abs(found[finite] - wanted[finite]), np.abs(wanted[finite])


@pytest.mark.slow
def test_encoders_compile_for_arm_without_a_warning(tmp_path: Path) -> None:
    machine, flags = arm(), build_flags("ENCODERS")
    machine.build(tmp_path / "encoders.o", native_sources("ENCODERS"), "-c", *flags)


@pytest.mark.nightly
def test_neon_is_chosen_and_portable_code_can_be(kernels: dict[str, bytes]) -> None:
    assert kernels["in use"] == b"neon\n"
    assert kernels["portable"] != kernels["neon"]


@pytest.mark.nightly
def test_threads_that_flush_denormals_keep_them_in_kernels(kernels: dict[str, bytes]) -> None:
    """XLA's threads do; the third number is computed after the kernel gave the thread back."""
    half = np.float32(0x100) * np.finfo(np.float32).smallest_subnormal
    for name in SETS:
        assert records(kernels[name])["denormals"].tolist() == [0.0, half, 0.0]


@pytest.mark.nightly
def test_kernels_make_the_same_bits_on_x86(kernels: dict[str, bytes], tmp_path: Path) -> None:
    """Every stored form, element type and option, at the edges of tiles and at odd widths."""
    machine = x86()
    program = machine.build(
        tmp_path / "kernels", [DRIVERS / "kernels.cpp", *native_sources()], "-w"
    )
    pairs = {"portable": "portable"} | ({"neon": "avx2"} if has_avx2() else {})
    for arms, other in pairs.items():
        found, wanted = records(kernels[arms]), records(machine.run(program, other))
        for name in other_bits(found, wanted):
            assert name.startswith(SOFTPLUS), f"{arms} {name}"
            dtype = wanted[name].dtype
            pair = (x[name].astype(np.float64) for x in (found, wanted))
            np.testing.assert_allclose(*pair, rtol=2 * float(ml_dtypes.finfo(dtype).eps))


@pytest.mark.nightly
def test_kernels_of_neon_and_portable_code(kernels: dict[str, bytes]) -> None:
    neon, plain = records(kernels["neon"]), records(kernels["portable"])
    for name in other_bits(neon, plain):
        dtype = plain[name].dtype
        found, wanted = neon[name].astype(np.float64), plain[name].astype(np.float64)
        last = 0.0 if dtype == np.float32 else float(ml_dtypes.finfo(dtype).eps)
        bound = UNITS * UNIT + last
        assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max(), name
