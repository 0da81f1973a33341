"""Reports that prove a package, as a conversion with a verdict and a measurement writes them."""

import hashlib
from pathlib import Path
from typing import Any

from masu.specs.report import (
    Fidelity,
    Machine,
    MatrixError,
    MeasuredText,
    Report,
    VerdictRecord,
)

HASH = "0" * 64
VERDICT = VerdictRecord(
    level="consistent", passed=True, error=2e-5, bound=1e-4, rounding=0.0, tokens=40
)
MATRIX = MatrixError(
    name="decoder.x", format="4 bits | MLX", shape=(2, 2), bytes=8, bits_per_weight=4.5,
    error=0.0625,
)  # fmt: skip
FIDELITY = Fidelity(
    text=MeasuredText(
        name="evaluation", sha256=HASH, tokens=9, window=9, windows=1, positions=8, left_out=0
    ),
    reference="the full-precision model", reference_bytes=64, dtype="float32", backend="numpy",
    mean_kl=0.03125, p99_kl=0.5, top1_agreement=0.875, perplexity=12.5, reference_perplexity=12.0,
    bytes=32, parameters=16, bits_per_weight=16.0, worst=(), matrices=(MATRIX,), layers=(),
)  # fmt: skip


def report(folder: Path, **changes: Any) -> Report:
    """One that proves the package in the folder, but for `changes`."""
    values: dict[str, Any] = {
        "format_version": 1,
        "masu_version": "0.1.0",
        "package": folder.name,
        "recipe": None,
        "verdict": VERDICT,
        "fidelity": FIDELITY,
        "others": (),
        "seconds": {},
        "peak_memory": 1,
        "machine": Machine(cpu="x", cores=1, versions={}),
        "manifest": hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest(),
    }
    return Report(**values | changes)


def put_report(folder: Path, **changes: Any) -> None:
    (folder / "report.json").write_bytes(report(folder, **changes).to_bytes())
