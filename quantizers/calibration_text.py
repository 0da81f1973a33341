"""What calibrated methods let the model read: masu's own text, a file, or the model's own words."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from masu.quantizers.text import calibration_text
from masu.runtime.loader import TensorSource
from masu.specs.errors import RequestError
from masu.specs.manifest import CalibrationRecord

if TYPE_CHECKING:
    from masu.runtime.model import Decoder

GENERATED = "generated"

Kind: TypeAlias = Literal["own", "file", "generated"]

LENGTH = 256
"""Tokens of one sequence."""

SEQUENCES = 16

GENERATED_SEQUENCES = 8

SHORTEST = 32

SEED = 0
"""Of the first generated sequence; each other one has the next."""


class Calibration(NamedTuple):
    """Attributes:
    sequences: token ids, int64 `[LENGTH]` each, at most SEQUENCES of them.
    """

    sequences: list[np.ndarray]
    record: CalibrationRecord


def read_calibration(
    model: TensorSource, tokenizer: bytes, source: str | Path | None = None
) -> Calibration:
    """The sequences to run, and what the manifest says of them.

    Args:
        model: for generated text only.
        tokenizer: the package's tokenizer.json.
        source: a UTF-8 text file; `generated` for text that the model samples; None for masu's own.

    Raises:
        RequestError: the file cannot be read, or has too little text.
    """
    if source == GENERATED:
        sequences = _generated(model)
        return Calibration(sequences, _record("generated", None, _bytes_of(sequences), sequences))
    data, where = _read(source)
    ids = _ids(tokenizer, _decoded(data, where))
    if len(ids) < SHORTEST:
        raise RequestError(
            f"{where}: expected at least {SHORTEST} tokens to calibrate with, found {len(ids)}",
            hint="a few thousand tokens of the kind of text that the model is for serve well",
        )
    starts = range(0, min(len(ids), LENGTH * SEQUENCES), LENGTH)
    cut = [ids[start : start + LENGTH] for start in starts]
    sequences = [part for part in cut if len(part) >= SHORTEST]
    if source is None:
        return Calibration(sequences, _record("own", None, data, sequences))
    return Calibration(sequences, _record("file", Path(source).name, data, sequences))


def text_hash(source: str | Path | None) -> str:
    """What the record says of a text that is not generated.

    Raises:
        RequestError: the file cannot be read.
    """
    return hashlib.sha256(_read(source)[0]).hexdigest()


def _record(
    kind: Kind, name: str | None, data: bytes, sequences: Sequence[np.ndarray]
) -> CalibrationRecord:
    return CalibrationRecord(
        kind=kind,
        name=name,
        sha256=hashlib.sha256(data).hexdigest(),
        tokens=sum(map(len, sequences)),
        seed=SEED if kind == "generated" else None,
    )


def _bytes_of(sequences: Sequence[np.ndarray]) -> bytes:
    return np.concatenate(sequences).astype("<i8").tobytes()


def _read(source: str | Path | None) -> tuple[bytes, str]:
    """The bytes of a text, and what messages call it."""
    if source is None:
        return calibration_text().encode(), "masu's calibration text"
    try:
        return Path(source).read_bytes(), str(source)
    except OSError as error:
        raise RequestError(f"calibration text {source} cannot be read: {error}") from error


def _decoded(data: bytes, where: str) -> str:
    """With line ends as a text file is read."""
    try:
        text = data.decode("utf-8")
    except UnicodeError as error:
        raise RequestError(f"calibration text {where} cannot be read: {error}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


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
    return [_sampled(model, int(first), seed) for seed, first in enumerate(firsts, SEED)]


def _sampled(model: "Decoder", first: int, seed: int) -> np.ndarray:
    from masu.runtime.sampling import Sampling, sample

    sampling, tokens = Sampling(temperature=1.0, seed=seed), [first]
    state = model.start(LENGTH)
    while len(tokens) < LENGTH:
        logits, state = model.last_logits(state, tokens[-1:])
        tokens.append(sample(logits, sampling, tokens, len(tokens)))
    return np.array(tokens, np.int64)
