"""What activations rounded to int8 cost and save, beside those of the package.

    python benchmarks/activations.py PACKAGE [DTYPE]

On 768 tokens of the evaluation text: perplexity, KL divergence from the activations as they are,
and how often the most likely token is the same. Then tokens a second of processor time on one
thread, medians of five rounds taken in turns: one token at a time, and a prompt of 1,024.
"""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import masu
from masu.cli.jax_settings import configure_jax
from masu.quantizers.text import evaluation_text
from masu.runtime.language_model import LanguageModel
from masu.runtime.model import Decoder

TOKENS, PROMPT, STEPS, ROUNDS = 768, 1024, 30, 5


def main(package: str, dtype: str | None = None) -> None:
    configure_jax()
    models = [opened(package, dtype, activations) for activations in (None, "int8")]
    ids = models[0].tokenizer.encode(evaluation_text())[:TOKENS]
    plain, rounded = (log_shares(model.logits(ids)) for model in models)
    for name, found in (("as they are", plain), ("int8", rounded)):
        print(f"perplexity {name}: {perplexity(found, ids):.3f}")
    divergence = (np.exp(plain) * (plain - rounded)).sum(-1).mean()
    same = (plain.argmax(-1) == rounded.argmax(-1)).mean()
    print(f"KL divergence {divergence:.5f}, the same token first {same:.1%}")
    for name, run, count in (("decode", steps, STEPS), ("prefill", prompt, PROMPT)):
        decoders = [model.decoder for model in models]
        taken = [[seconds(run, each) for each in decoders] for _ in range(ROUNDS + 1)][1:]
        rates = [count / median(column) for column in zip(*taken, strict=True)]
        print(f"{name}: {rates[0]:.1f} as they are, {rates[1]:.1f} int8")


def opened(package: str, dtype: str | None, activations: str | None) -> LanguageModel:
    model = masu.load(package, dtype, backend="native", threads=1, activations=activations)
    assert isinstance(model, LanguageModel)
    return model


def log_shares(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


def perplexity(found: np.ndarray, ids: list[int]) -> float:
    following = np.array(ids[1:])[:, None]
    return float(np.exp(-np.take_along_axis(found[:-1], following, 1).mean()))


def seconds(run: Callable[[Decoder], None], decoder: Decoder) -> float:
    """Of this process's processor time: other work on the machine does not count."""
    began = time.process_time()
    run(decoder)
    return time.process_time() - began


def steps(decoder: Decoder) -> None:
    state = decoder.start(STEPS)
    for token in range(STEPS):
        _, state = decoder.last_logits(state, [token])


def prompt(decoder: Decoder) -> None:
    decoder.last_logits(decoder.start(PROMPT), np.arange(PROMPT) % 1000)


if __name__ == "__main__":
    main(*sys.argv[1:])
