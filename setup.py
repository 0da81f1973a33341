"""Builds the native kernels where there is a C++17 compiler; everything else is in pyproject.toml.

They need no header but the standard library's. Without a compiler the package installs without
them and says so when its backends are listed.
"""

from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("runtime/backends/native/cpp")

# The portable kernels first: of what the standard library's templates leave in several objects
# the linker keeps the first, which must run on every processor.
FILES = ["portable.cpp", "avx2.cpp", "avx512.cpp", "pool.cpp", "handlers.cpp"]

KERNELS = Extension(
    "masu.runtime.backends.native._kernels",
    sources=[str(SOURCES / name) for name in FILES],
    depends=[str(path) for path in sorted(SOURCES.iterdir())],
    language="c++",
    # Where the compiler may not fuse a product and a sum, every build computes the same bits.
    extra_compile_args=[
        "-std=c++17",
        "-O3",
        "-fno-math-errno",
        "-ffp-contract=off",
        "-pthread",
        "-g0",
    ],
    extra_link_args=["-pthread"],
    optional=True,
)

setup(ext_modules=[KERNELS])
