"""Builds kernels and encoders where there is a C++17 compiler; all else is in pyproject.toml.

They need no header but the standard library's. Without a compiler the package installs without
them, and `masu capabilities` says so.
"""

from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("runtime/backends/native/cpp")

# The portable kernels first: of what the standard library's templates leave in several objects
# the linker keeps the first, which must run on every processor. Files for other processors are
# empty, and no flag below is for one kind: macOS may build for two at once.
FILES = [
    *("portable.cpp", "neon.cpp", "avx2.cpp", "avx512.cpp", "avx512bf16.cpp", "pool.cpp"),
    *("handlers.cpp", "between_handlers.cpp", "experts_handler.cpp", "step_handlers.cpp"),
    *("arithmetic.cpp", "move.cpp", "program.cpp"),
]

# Where the compiler may not fuse a product and a sum, every build computes the same bits.
SAME_BITS = ["-std=c++17", "-O3", "-fno-math-errno", "-ffp-contract=off", "-g0"]

KERNELS = Extension(
    "masu.runtime.backends.native._kernels",
    sources=[str(SOURCES / name) for name in FILES],
    depends=[str(path) for path in sorted(SOURCES.iterdir())],
    language="c++",
    extra_compile_args=[*SAME_BITS, "-pthread"],
    extra_link_args=["-pthread"],
    optional=True,
)

ENCODING = Path("specs/formats/native/cpp")

ENCODERS = Extension(
    "masu.specs.formats.native._encoders",
    sources=[str(ENCODING / "encoders.cpp")],
    depends=[str(path) for path in sorted(ENCODING.iterdir())],
    language="c++",
    # Nobody asks which operation was inexact or invalid: loops with choices become vectors.
    extra_compile_args=[*SAME_BITS, "-fno-trapping-math"],
    optional=True,
)

setup(ext_modules=[KERNELS, ENCODERS])
