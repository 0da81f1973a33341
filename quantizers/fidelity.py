"""Fidelity: what a package predicts beside what the full-precision model predicts, on one text."""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from masu.quantizers.divergence import Divergence, divergence, joined
from masu.quantizers.layer_errors import layer_errors
from masu.quantizers.matrix_errors import matrix_errors
from masu.quantizers.windows import NamedText, Window, WindowedText
from masu.runtime.backend import Backend
from masu.runtime.loader import TensorSource
from masu.runtime.model import PREFILL, Decoder, load_model
from masu.specs.errors import RequestError
from masu.specs.model import LanguageModelConfig
from masu.specs.package import TOKENIZER, Package
from masu.specs.report import Fidelity, WorstPosition
from masu.specs.text.tokenizer import PackageTokenizer

WORST = 10
"""Positions that a report shows."""
CONTEXT_BEFORE, CONTEXT_AFTER = 24, 8
"""Tokens of text shown around one."""
LARGEST_LOSS = 700.0
"""Nats; `exp` of much more is beyond float64, and a perplexity of 1e304 says enough."""


class Reference(NamedTuple):
    """The full-precision model.

    Attributes:
        source: a package, or a planned stream.
        name: as the report gives it.
        bytes: size of its model.safetensors.
    """

    source: TensorSource
    name: str
    bytes: int

    @classmethod
    def of_package(cls, package: Package) -> "Reference":
        return cls(package, package.path.name, package.container.path.stat().st_size)


def measure(
    package: Package,
    reference: Reference,
    text: NamedText,
    *,
    dtype: str = "float32",
    backend: str | Backend | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Fidelity:
    """Run both models over the text, side by side, and compare everything that can be compared.

    Both are in memory at once; of the logits never more than those of `PREFILL` positions.

    Args:
        dtype: of the activations of both models.
        on_progress: gets the tokens read so far, and all of them.

    Raises:
        RequestError: no language models, or their vocabularies differ; a text of under two tokens.
        TensorMismatch, PackageError: one of the two computes no numbers, or does not load.
    """
    _require_comparable(package, reference)
    matrices = tuple(matrix_errors(package, reference.source))
    theirs = load_model(reference.source, dtype=dtype, backend=backend)
    ours = load_model(package, dtype=dtype, backend=theirs.backend)
    tokenizer = PackageTokenizer.open(package.path / TOKENIZER)
    windowed = _windowed(text, tokenizer, ours)
    found = _divergences(ours, theirs, windowed, on_progress)
    figures: dict[str, Any] = {**_figures(found), **_sizes(package)}
    return Fidelity(
        **figures,
        text=windowed.record,
        reference=reference.name,
        reference_bytes=reference.bytes,
        dtype=dtype,
        backend=ours.backend.name,
        worst=_worst(found, windowed, tokenizer),
        matrices=matrices,
        layers=layer_errors(ours, theirs, [window.ids for window in windowed.windows]),
    )


def _windowed(text: NamedText, tokenizer: PackageTokenizer, model: Decoder) -> WindowedText:
    vocab_size = model.config.network.vocab_size
    return WindowedText.of(text, tokenizer, vocab_size, model.context_length)


def _require_comparable(package: Package, reference: Reference) -> None:
    sizes = []
    for config, name in (
        (package.config, package.path),
        (reference.source.config, reference.name),
    ):
        if not isinstance(config, LanguageModelConfig):
            raise RequestError(f"fidelity is of language models, {name} is a {config.type}")
        sizes.append(config.network.vocab_size)
    if sizes[0] != sizes[1]:
        raise RequestError(
            f"{package.path} has {sizes[0]:,} tokens in its vocabulary, {reference.name} has "
            f"{sizes[1]:,}: one is not made of the other"
        )


def _divergences(
    ours: Decoder,
    theirs: Decoder,
    text: WindowedText,
    on_progress: Callable[[int, int], None] | None,
) -> Divergence:
    parts, done = [], 0
    total = sum(len(window.ids) for window in text.windows)
    for window in text.windows:
        for part, read in _of_window(ours, theirs, window):
            parts.append(part)
            done += read
            if on_progress is not None:
                on_progress(done, total)
    return joined(parts)


def _of_window(ours: Decoder, theirs: Decoder, window: Window) -> Iterator[tuple[Divergence, int]]:
    """In step, a few tokens at a time: the divergence, and how many tokens were read for it."""
    ids, first = window.ids, window.first_row
    our_state, their_state = ours.start(len(ids)), theirs.start(len(ids))
    for at in range(0, len(ids), PREFILL):
        chunk = ids[at : at + PREFILL]
        our_logits, our_state = ours.advance(our_state, chunk)
        their_logits, their_state = theirs.advance(their_state, chunk)
        targets = ids[at + 1 : at + 1 + len(chunk)]
        rows = slice(max(first - at, 0), len(targets))
        yield divergence(their_logits[rows], our_logits[rows], targets[rows]), len(chunk)


def _figures(found: Divergence) -> dict[str, float]:
    return {
        "mean_kl": float(found.kl.mean()),
        "p99_kl": float(np.quantile(found.kl, 0.99)),
        "top1_agreement": float((found.choice == found.reference_choice).mean()),
        "perplexity": _perplexity(found.loss),
        "reference_perplexity": _perplexity(found.reference_loss),
    }


def _perplexity(loss: np.ndarray) -> float:
    return float(np.exp(min(float(loss.mean()), LARGEST_LOSS)))


def _sizes(package: Package) -> dict[str, Any]:
    size = package.container.path.stat().st_size
    parameters = sum(prod(entry.shape) for _, entry in package.config.tensors())
    return {
        "bytes": size,
        "parameters": parameters,
        "bits_per_weight": 8 * size / parameters,
    }


def _worst(
    found: Divergence, text: WindowedText, tokenizer: PackageTokenizer
) -> tuple[WorstPosition, ...]:
    places = [
        window.start + row + 1 - window.begin
        for window in text.windows
        for row in range(window.first_row, len(window.ids) - 1)
    ]
    largest = np.argsort(-found.kl, kind="stable")[:WORST]
    return tuple(_position(found, int(i), places[i], text, tokenizer) for i in largest)


def _position(
    found: Divergence, row: int, place: int, text: WindowedText, tokenizer: PackageTokenizer
) -> WorstPosition:
    ids = list(text.ids)
    before = ids[max(place - CONTEXT_BEFORE, 0) : place]
    after = ids[place + 1 : place + 1 + CONTEXT_AFTER]

    def spelled(token: int) -> str:
        return _continuation(tokenizer, before, [token])

    return WorstPosition(
        position=place,
        kl=float(found.kl[row]),
        before=tokenizer.decode(before),
        token=spelled(ids[place]),
        after=_continuation(tokenizer, [*before, ids[place]], after),
        reference_choice=spelled(int(found.reference_choice[row])),
        reference_probability=_share(found.reference_confidence[row]),
        package_choice=spelled(int(found.choice[row])),
        package_probability=_share(found.confidence[row]),
    )


def _share(probability: Any) -> float:
    """Rounding can take it past 1."""
    return min(float(probability), 1.0)


def _continuation(tokenizer: PackageTokenizer, before: list[int], ids: list[int]) -> str:
    """How ids read behind others: by themselves some tokenizers drop their leading space."""
    lead, whole = tokenizer.decode(before), tokenizer.decode([*before, *ids])
    return whole.removeprefix(lead) if whole.startswith(lead) else tokenizer.decode(ids)
