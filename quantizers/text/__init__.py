"""The texts that packages are measured on and calibrated with: written for this, and disjoint."""

from importlib.resources import files

EVALUATION = "evaluation"
"""How a report names the text that masu measures on if nobody gives another one."""


def evaluation_text() -> str:
    """About 2,500 tokens of prose, code, dialogue, lists and figures, for `fidelity`."""
    return _text("evaluation.txt")


def calibration_text() -> str:
    """About 6,500 tokens of the same kinds, none of it in `evaluation_text`, for methods that
    look at activations."""
    return _text("calibration.txt")


def _text(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
