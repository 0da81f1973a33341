"""Programs made of the kernels' sources, for this processor and for ARM, and what they write.

On other processors ARM's run under an emulator; tests skip where there is none, or no compiler.
"""

import platform
import runpy
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
DRIVERS = ROOT / "tests/instruction_sets"
TYPES = {
    **{name: np.dtype(name) for name in ("float32", "float16", "int32")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
STRICT = ("-Wall", "-Wextra", "-Werror")

Records = dict[str, np.ndarray]


@dataclass(frozen=True)
class Machine:
    """A processor that programs are built for, and what runs them here."""

    compiler: str
    flags: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()

    def build(self, out: Path, sources: list[Path], *flags: str) -> Path:
        """A program or a library; what the compiler says is the test's failure."""
        folders = [f"-I{folder}" for folder in (native_sources()[0].parent, DRIVERS)]
        command = [self.compiler, *build_flags(), *self.flags, *flags, *folders]
        done = subprocess.run(
            [*command, *map(str, sources), "-o", str(out)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return out

    def run(self, program: Path, *arguments: str) -> bytes:
        command = [*self.runner, str(program), *arguments]
        return subprocess.run(command, capture_output=True, check=True, timeout=300).stdout


def host() -> Machine:
    return Machine(found("c++"))


def arm() -> Machine:
    if platform.machine() in ("aarch64", "arm64"):
        return Machine(found("c++"), STRICT)
    compiler = found("aarch64-linux-gnu-g++")
    return Machine(compiler, ("-static", *STRICT), (found("qemu-aarch64", "qemu-aarch64-static"),))


def found(*programs: str) -> str:
    """The path of the first of these that is installed."""
    paths = [path for program in programs if (path := shutil.which(program))]
    if not paths:
        pytest.skip(f"there is no {' nor '.join(programs)}")
    return paths[0]


@cache
def extensions() -> dict[str, object]:
    """What setup.py builds, without building it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr("setuptools.setup", lambda **_: None)
        return runpy.run_path(str(ROOT / "setup.py"))


def native_sources(name: str = "KERNELS") -> list[Path]:
    return [ROOT / source for source in extensions()[name].sources]  # type: ignore[attr-defined]


def build_flags(name: str = "KERNELS") -> list[str]:
    return extensions()[name].extra_compile_args  # type: ignore[attr-defined]


def records(written: bytes) -> Records:
    """Arrays by name: see tests/instruction_sets/records.h."""
    read: Records = {}
    at = 0
    while at < len(written):
        end = written.index(b"\n", at)
        name, kind, count = written[at:end].decode().split()
        assert name not in read
        dtype = TYPES[kind]
        read[name] = np.frombuffer(written, dtype, int(count), end + 1)
        at = end + 1 + int(count) * dtype.itemsize
    return read


def other_bits(found: Records, wanted: Records) -> list[str]:
    """The records that differ; one NaN is as good as another."""
    assert found.keys() == wanted.keys()
    return [name for name in found if not same_bits(found[name], wanted[name])]


def same_bits(found: np.ndarray, wanted: np.ndarray) -> bool:
    words = np.dtype(f"u{found.dtype.itemsize}")
    same = found.view(words) == wanted.view(words)
    if found.dtype.kind != "i":
        same |= np.isnan(found) & np.isnan(wanted)
    return bool(same.all())
