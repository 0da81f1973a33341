"""What a recipe has to see the model run for: calibrated codes, measured sensitivity."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from masu.events import Event, OnEvent
from masu.quantizers.plan import Quantisation
from masu.specs.errors import RequestError
from masu.specs.formats.base import Planes


def calibrated(
    plan: Quantisation,
    tokenizer: bytes,
    dtype: str,
    planes: Planes,
    scratch: Path,
    *,
    text: str | Path | None = None,
    on_event: OnEvent | None = None,
) -> Quantisation:
    """The plan with everything in it that needs a run of the model; codes wait in `scratch`.

    Args:
        tokenizer: the package's tokenizer.json.
        dtype: the model's own element type, by its name in the file.
        text: a file to calibrate on; `generated` for what the model makes up; None for masu's own.

    Raises:
        RequestError: the text cannot be read, is too short, or has no use.
    """
    from masu.quantizers.calibration import calibrate
    from masu.quantizers.calibration_text import read_calibration
    from masu.quantizers.promotion import promote
    from masu.quantizers.stream_source import StreamSource

    def advance(stage: str, layers: int, total: int) -> None:
        if on_event is not None:
            on_event(Event(stage, layers, total, "layers"))

    if not plan.needs_model:
        refuse_idle_text(text)
        return plan
    source = StreamSource.of(plan.config, plan.originals)
    texts, record = read_calibration(source, tokenizer, text)
    plan = promote(plan, texts[0], dtype, planes, partial(advance, "measure"))
    if plan.pending:
        scratch.mkdir()
        plan = calibrate(plan, texts, dtype, planes, scratch, partial(advance, "calibrate"))
    return replace(plan, calibration=record)


def refuse_idle_text(text: str | Path | None) -> None:
    """Raises RequestError for a calibration text that nothing would read."""
    if text is not None:
        raise RequestError(
            f"calibration text {text}: nothing here is calibrated",
            hint="leave --calibration out, or choose a recipe with a calibrated method",
        )


@contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """A folder inside a package that is being made, gone before it is finished.

    What a killed run leaves there goes with the rest of what it left.
    """
    scratch = folder / ".calibration"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
