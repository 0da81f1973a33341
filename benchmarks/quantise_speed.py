"""What quantising to MLX 4 bit, groups of 64, costs beside mlx-lm, in one interleaved run.

    python benchmarks/quantise_speed.py --peer-python peers/bin/python --rounds 3

Generates a random bfloat16 checkpoint of 1.7 billion parameters in four shards, then times, in
turn, `masu convert --recipe mlx-4bit --no-verify`, hashes included, and `mlx_lm.convert -q`, sync
included. Every command is a process of its own; peak memory is its `ru_maxrss`.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from convert import Contender, generated_apart, measure

BITS, GROUP_SIZE = 4, 64
SMALLEST_SHARE = (BITS + 2 * 16 / GROUP_SIZE) / 16
"""Of the source's bytes, if every number is quantised: codes, and a scale and a bias per group."""


def contenders(peer_python: str | None) -> list[Contender]:
    masu = [sys.executable, "-m", "masu", "convert", "--no-verify", "--recipe", "mlx-4bit"]
    found = [Contender("masu convert", lambda source, out: [*masu, str(source), "-o", str(out)])]
    if peer_python is not None:
        mlx = [peer_python, "-m", "mlx_lm", "convert", "-q"]
        mlx += ["--q-bits", str(BITS), "--q-group-size", str(GROUP_SIZE)]
        found.append(
            Contender(
                "mlx_lm.convert",
                lambda source, out: [*mlx, "--hf-path", str(source), "--mlx-path", str(out)],
            )
        )
    return found


def report(size: int, found: list[Contender]) -> None:
    base = statistics.median(found[0].seconds)
    print(f"{size / 1e9:.2f} GB of bfloat16, sync included; 1 min load {os.getloadavg()[0]:.1f}")
    titles = f"{'median s':>9} {'min s':>7} {'max s':>7} {'x masu':>7} {'cpu s':>7} {'peak MB':>8}"
    print(f"{'':16} {titles}")
    for each in found:
        middle = statistics.median(each.seconds)
        print(
            f"{each.name:16} {middle:9.2f} {min(each.seconds):7.2f} {max(each.seconds):7.2f} "
            f"{middle / base:7.2f} {statistics.median(each.cpu_seconds):7.2f} "
            f"{max(each.peak_bytes) / 1e6:8.0f}"
        )


def check_size(contender: Contender, out: Path, size: int) -> None:
    """A contender that wrote too little or too much did not do the job."""
    written = sum(path.stat().st_size for path in out.rglob("*.safetensors"))
    if not 0.99 < written / (SMALLEST_SHARE * size) < 1.1:
        raise SystemExit(f"{contender.name} wrote {written} bytes of {size}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gigabytes", type=float, default=3.4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", help="a Python in which mlx-lm is installed")
    parser.add_argument("--folder", type=Path, help="where the files go; by default temporary")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source, out = Path(folder) / "source", Path(folder) / "out"
        size = generated_apart(source, "dense", options.gigabytes)
        found = contenders(options.peer_python)
        for _ in range(options.rounds):
            for contender in found:
                measure(contender, source, out)
                check_size(contender, out, size)
                shutil.rmtree(out)
        report(size, found)


if __name__ == "__main__":
    main()
