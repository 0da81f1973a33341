"""A report of a golden package with everything in it, for tests of what is made of reports."""

from functools import cache
from pathlib import Path

from golden import GOLDEN

from masu.fidelity import make_report, measure_package
from masu.specs.report import Fidelity, OtherPackage, Report
from masu.verdict import Verdict

PACKAGE, REFERENCE = GOLDEN / "llama-mlx-4bit-g64/engine", GOLDEN / "llama/engine"
TEXT = Path(__file__).parent.parent / "LICENSE"
"""Some text that is there."""

HOSTILE = "</script><script>console.error('not escaped')</script><img src='http://x.invalid/y'>"


@cache
def fidelity() -> Fidelity:
    """In float64, without a compiler."""
    return measure_package(PACKAGE, REFERENCE, text=TEXT, dtype="float64", backend="numpy")


@cache
def hostile_report() -> Report:
    """Everything that a page can show, and markup wherever there may be text."""
    first, *rest = fidelity().worst
    worst = first.model_copy(
        update={"before": HOSTILE, "token": f"\n\t{HOSTILE}", "package_choice": f" {HOSTILE}\x07"}
    )
    matrices = fidelity().matrices * 5  # so many that the table is folded
    found = fidelity().model_copy(update={"worst": (worst, *rest), "matrices": matrices})
    eight = OtherPackage(
        name=f"8-bit {HOSTILE}", bytes=120_000, bits_per_weight=8.5, mean_kl=0.002, p99_kl=0.01
    )
    return make_report(
        f"llama-4bit {HOSTILE}",
        fidelity=found,
        verdict=Verdict("consistent", True, 3.1e-5, 1e-4, 0.0123, 40),
        recipe="mlx-4bit",
        seconds={"plan": 0.123456, "write": 12.5},
        others=[eight],
    )
