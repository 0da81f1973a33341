"""What calibrated methods let the model read: masu's own text, a file, or the model's own words."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masu.quantizers.text import calibration_text
from masu.runtime.loader import TensorSource
from masu.specs.errors import RequestError

if TYPE_CHECKING:
    from masu.runtime.model import Decoder

GENERATED = "generated"

LENGTH = 256
"""Tokens of one sequence."""

SEQUENCES = 16

GENERATED_SEQUENCES = 8

SHORTEST = 32


def calibration_texts(
    model: TensorSource, tokenizer: bytes, source: str | Path | None = None
) -> list[np.ndarray]:
    """Sequences of token ids, int64 `[LENGTH]` each, at most SEQUENCES of them.

    Args:
        model: for generated text only.
        tokenizer: the package's tokenizer.json.
        source: a UTF-8 text file; `generated` for text that the model samples; None for masu's own.

    Raises:
        RequestError: the file cannot be read, or has too little text.
    """
    if source == GENERATED:
        return _generated(model)
    text, where = _text(source)
    ids = _ids(tokenizer, text)
    if len(ids) < SHORTEST:
        raise RequestError(
            f"{where}: expected at least {SHORTEST} tokens to calibrate with, found {len(ids)}",
            hint="a few thousand tokens of the kind of text that the model is for serve well",
        )
    starts = range(0, min(len(ids), LENGTH * SEQUENCES), LENGTH)
    cut = [ids[start : start + LENGTH] for start in starts]
    return [part for part in cut if len(part) >= SHORTEST]


def _text(source: str | Path | None) -> tuple[str, str]:
    if source is None:
        return calibration_text(), "masu's calibration text"
    try:
        return Path(source).read_text(encoding="utf-8"), str(source)
    except (OSError, UnicodeError) as error:
        raise RequestError(f"calibration text {source} cannot be read: {error}") from error


def _ids(tokenizer: bytes, text: str) -> np.ndarray:
    from tokenizers import Tokenizer

    own = Tokenizer.from_buffer(tokenizer)
    return np.array(own.encode(text, add_special_tokens=False).ids, np.int64)


def _generated(source: TensorSource) -> list[np.ndarray]:
    """Text that the model makes up at temperature 1, a sequence from each of some first tokens."""
    from masu.runtime.model import load_model

    model = load_model(source)
    vocab = model.config.decoder_config.vocab_size
    firsts = np.linspace(0, vocab - 1, GENERATED_SEQUENCES + 2, dtype=np.int64)[1:-1]
    return [_sampled(model, int(first), seed) for seed, first in enumerate(firsts)]


def _sampled(model: "Decoder", first: int, seed: int) -> np.ndarray:
    from masu.runtime.sampling import Sampling, sample

    sampling, tokens = Sampling(temperature=1.0, seed=seed), [first]
    state = model.start(LENGTH)
    while len(tokens) < LENGTH:
        logits, state = model.last_logits(state, tokens[-1:])
        tokens.append(sample(logits, sampling, tokens, len(tokens)))
    return np.array(tokens, np.int64)
