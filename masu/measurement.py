"""How fast a package runs, and how much memory that takes: `masu bench`, as a function."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from masu.machine import cpu_name, usable_cores, versions
from masu.process import peak_bytes, resident_bytes
from masu.runtime.backends import load_backend
from masu.runtime.model import Decoder, load_model
from masu.runtime.sampling import Sampling, sample
from masu.runtime.state import State
from masu.specs.errors import RequestError
from masu.specs.package import WEIGHTS, Package

GREEDY = Sampling(temperature=0.0)


@dataclass(frozen=True)
class Measurement:
    """One figure.

    Attributes:
        name: `load`, `time_to_first_token` (reading the prompt and choosing a token), `prefill`,
            `decode`; `weights_in_file`, `weights_in_memory`, `resident_after_load`, `state`,
            `resident`, `peak`; `compiled_programs`, and those of each function; `kernel_programs`,
            1 where a step of one token is a program of kernels, else with the reason.
        value: in `unit`; None where the system does not tell.
        round: of figures that are repeated. Round 0 also compiles, and is no measure of speed.
        settings: what the figure was measured with, and on what.
    """

    name: str
    value: float | None
    unit: str
    round: int | None
    settings: Mapping[str, Any]


class _Figure(NamedTuple):
    name: str
    value: float | None
    unit: str
    round: int | None = None
    told: Mapping[str, Any] = {}


def bench(
    path: str | Path,
    *,
    backend: str | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    activations: str | None = None,
    prompt_tokens: int = 512,
    new_tokens: int = 64,
    rounds: int = 3,
) -> Iterator[Measurement]:
    """Load a package, let it read and write; each figure as soon as it is known.

    Args:
        threads, activations: as `masu.load` takes them.
        prompt_tokens: of a random prompt; what it says makes no difference.
        new_tokens: to write, 2 or more: the first one belongs to the prompt.
        rounds: after round 0.

    Raises:
        PackageError: the package is not there, or breaks its own schema.
        RequestError: at once: so many tokens do not fit, or the backend lacks something.
    """
    if prompt_tokens < 1 or new_tokens < 2 or rounds < 1:
        raise RequestError("a bench takes 1 prompt token, 2 new tokens and 1 round at least")
    began = perf_counter()
    package = Package.open(Path(path))
    chosen = load_backend(backend, threads=threads, activations=activations)
    model = load_model(package, dtype=dtype, backend=chosen)
    seconds = perf_counter() - began
    _check_room(package, model, prompt_tokens, new_tokens)
    settings = {
        "package": str(package.path),
        **_conditions(model),
        "threads": threads,
        "prompt_tokens": prompt_tokens,
        "new_tokens": new_tokens,
    }
    figures = _figures(package, model, seconds, (prompt_tokens, new_tokens), rounds)
    return (Measurement(*figure[:-1], settings={**settings, **figure.told}) for figure in figures)


def _conditions(model: Decoder) -> dict[str, Any]:
    return {
        "backend": model.backend.name,
        "dtype": str(model.dtype),
        "activations": model.backend.activations,
        **versions(["masu", "jax", "numpy"]),
        "cpu": cpu_name(),
        "cores": usable_cores(),
    }


def _check_room(package: Package, model: Decoder, prompt_tokens: int, new_tokens: int) -> None:
    try:
        model.start(prompt_tokens + new_tokens)
    except RequestError as cause:
        raise RequestError(
            f"{package.path}: {prompt_tokens} prompt tokens and {new_tokens} new ones: {cause}",
            hint="ask for fewer by --prompt-tokens and --new-tokens",
        ) from None


def _figures(
    package: Package, model: Decoder, loading: float, tokens: tuple[int, int], rounds: int
) -> Iterator[_Figure]:
    yield _Figure("load", loading, "seconds")
    yield _Figure("weights_in_file", (package.path / WEIGHTS).stat().st_size, "bytes")
    yield _Figure("weights_in_memory", model.weight_bytes, "bytes")
    yield _Figure("resident_after_load", resident_bytes(), "bytes")
    for number in range(rounds + 1):
        state, figures = _round(model, *tokens, number)
        yield from figures
        if number == rounds:
            yield _Figure("state", state.held_bytes, "bytes")
    resident = resident_bytes()
    yield _Figure("resident", resident, "bytes")
    # The kernel counts pages per thread and sums late: its peak can lie just below what is there.
    yield _Figure("peak", max(peak_bytes(), resident or 0), "bytes")
    programs = model.backend.compiled_programs()
    yield _Figure("compiled_programs", sum(programs.values()), "programs")
    for function, count in programs.items():
        yield _Figure(f"compiled_programs.{function}", count, "programs")
    reason = model.why_in_parts
    told = {} if reason is None else {"reason": reason}
    yield _Figure("kernel_programs", int(reason is None), "programs", None, told)


def _round(
    model: Decoder, prompt_tokens: int, new_tokens: int, number: int
) -> tuple[State, list[_Figure]]:
    vocab = model.config.decoder_config.vocab_size
    prompt = np.random.default_rng(0).integers(0, vocab, prompt_tokens)
    began = perf_counter()
    state = model.start(prompt_tokens + new_tokens)
    started = perf_counter()
    logits, state = model.last_logits(state, prompt)
    read = perf_counter()
    token = sample(logits, GREEDY, (), state.position)
    first = perf_counter()
    for _ in range(new_tokens - 1):
        logits, state = model.last_logits(state, [token])
        token = sample(logits, GREEDY, (), state.position)
    written = perf_counter()
    return state, [
        _Figure("time_to_first_token", first - began, "seconds", number),
        _Figure("prefill", prompt_tokens / (read - started), "tokens per second", number),
        _Figure("decode", (new_tokens - 1) / (written - first), "tokens per second", number),
    ]
