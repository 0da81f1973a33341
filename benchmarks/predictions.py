"""What a package predicts on the evaluation text, beside logits that were saved before.

Matrices are decoded once, to float32, and run in float32: the numbers are those that the package
stands for, and one kind of product serves every format.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from masu.quantizers.divergence import divergence, joined
from masu.quantizers.stream_source import StreamSource
from masu.quantizers.text import EVALUATION, evaluation_text
from masu.quantizers.windows import NamedText, WindowedText
from masu.runtime.model import PREFILL, Decoder, load_model
from masu.specs.model import LanguageModelConfig
from masu.specs.package import TOKENIZER, Package
from masu.specs.package_stream import stream_of
from masu.specs.text.tokenizer import PackageTokenizer

TABLES = ("embedding", "input_embedding", "output_embedding")


def save_logits(path: Path, file: Path, windows: int) -> None:
    """The logits of every position of the first `windows` windows: float32 `[tokens, vocab]`."""
    package = Package.open(path)
    model, text = _opened(package)
    rows = sum(len(window.ids) for window in text.windows[:windows])
    shape = (rows, model.config.network.vocab_size)
    saved = np.lib.format.open_memmap(file, "w+", np.float32, shape)
    for at, _, logits in _steps(model, text, windows):
        saved[at : at + len(logits)] = logits
    saved.flush()


def compared(path: Path, reference: Path, windows: int) -> dict[str, Any]:
    """The figures of `masu.quantizers.fidelity`, for the first `windows` windows."""
    package = Package.open(path)
    model, text = _opened(package)
    expected = np.load(reference, mmap_mode="r")
    targets = [_targets(window.ids, window.first_row) for window in text.windows[:windows]]
    wanted, parts = np.concatenate(targets), []
    for at, _, logits in _steps(model, text, windows):
        goal = wanted[at : at + len(logits)]
        counted = goal >= 0
        theirs = np.asarray(expected[at : at + len(logits)])
        parts.append(divergence(theirs[counted], logits[counted], goal[counted]))
    found = joined(parts)
    shapes = dict(package.config.tensors())
    return {
        "mean_kl": float(found.kl.mean()),
        "p99_kl": float(np.quantile(found.kl, 0.99)),
        "top1": float((found.choice == found.reference_choice).mean()),
        "perplexity": float(np.exp(found.loss.mean())),
        "positions": len(found.kl),
        "tokens": len(wanted),
        "text": EVALUATION,
        "sha256": text.record.sha256,
        "bytes": package.container.path.stat().st_size,
        "parameters": sum(prod(entry.shape) for entry in shapes.values()),
        "tables": _table_bytes(package),
    }


def _opened(package: Package) -> tuple[Decoder, WindowedText]:
    config = package.config
    assert isinstance(config, LanguageModelConfig)
    decoded = StreamSource.of(config, stream_of(package))
    model = load_model(decoded, dtype="float32")
    tokenizer = PackageTokenizer.open(package.path / TOKENIZER)
    source = NamedText(EVALUATION, evaluation_text())
    vocab_size = model.config.network.vocab_size
    return model, WindowedText.of(source, tokenizer, vocab_size, model.context_length)


def _targets(ids: np.ndarray, first: int) -> np.ndarray:
    """The token that each row predicts; -1 where that does not count."""
    targets = np.append(ids[1:], -1)
    targets[:first] = -1
    return targets


def _steps(
    model: Decoder, text: WindowedText, windows: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Rows done, the window's number, and the next logits."""
    done = 0
    for number, window in enumerate(text.windows[:windows]):
        state = model.start(len(window.ids))
        for at in range(0, len(window.ids), PREFILL):
            logits, state = model.advance(state, window.ids[at : at + PREFILL])
            yield done, number, logits
            done += len(logits)


def _table_bytes(package: Package) -> dict[str, int]:
    """Bytes of the tables of tokens, by the last part of their name."""
    found: dict[str, int] = {}
    for name, array in package.container.tensors.items():
        for table in TABLES:
            if f".embedding.{table}." in name:
                found[table] = found.get(table, 0) + array.length
    return found
