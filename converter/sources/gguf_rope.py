"""From the rope keys of a GGUF file to transformers' `rope_parameters`."""

import math
from typing import Any

import numpy as np

from masu.converter.sources.gguf_keys import ArchitectureKeys
from masu.specs.errors import ConfigError

LLAMA3_CONTEXT = 8192
# Every Llama 3 release uses these two; only their ratio to the context length can be measured.
LOW_FREQUENCY_FACTOR, HIGH_FREQUENCY_FACTOR = 1.0, 4.0
# The factors are float32, and pi and the powers behind them may be rounded differently.
_TOLERANCE = 1e-5


def rope_parameters(
    keys: ArchitectureKeys, head_dim: int, factors: np.ndarray | None = None
) -> dict[str, Any]:
    """transformers 5's `rope_parameters` for layers that attend to everything.

    Args:
        head_dim: channels of a head; all of them are rotated.
        factors: `[head_dim / 2]` divisors of the frequencies (Llama 3), if the file has them.

    Raises:
        ConfigError: factors beside another scaling, or factors that are not Llama 3's.
    """
    scaled = keys.rope_scaling == "yarn" or (
        keys.rope_scaling == "linear" and keys.rope_factor != 1
    )
    if factors is not None:
        if scaled:
            raise ConfigError(
                "the file scales its rotary embedding twice: by rope_freqs.weight and by "
                f"rope.scaling.type {keys.rope_scaling!r}"
            )
        return _llama3(factors, keys, head_dim)
    if not scaled:
        return {"rope_type": "default", "rope_theta": keys.rope_base}
    if keys.rope_scaling == "linear":
        return {"rope_type": "linear", "rope_theta": keys.rope_base, "factor": keys.rope_factor}
    return {
        "rope_type": "yarn",
        "rope_theta": keys.rope_base,
        "factor": keys.rope_factor,
        "original_max_position_embeddings": keys.rope_original_context or keys.context_length,
        "beta_fast": keys.yarn_beta_fast,
        "beta_slow": keys.yarn_beta_slow,
    }


def _llama3(factors: np.ndarray, keys: ArchitectureKeys, head_dim: int) -> dict[str, Any]:
    """The four numbers behind a list of factors: guessed, then proven by computing the list."""
    if factors.shape != (head_dim // 2,) or not np.isfinite(factors).all():
        raise _not_llama3(f"expected {head_dim // 2} finite factors, found {_shown(factors)}")
    factor = float(factors.max())
    wavelengths = 2 * math.pi * keys.rope_base ** (np.arange(0, head_dim, 2) / head_dim)
    contexts = [keys.rope_original_context, LLAMA3_CONTEXT, _context(factors, factor, wavelengths)]
    for context in filter(None, contexts):
        expected = llama3_factors(wavelengths, factor, context)
        if np.allclose(expected, factors, rtol=_TOLERANCE, atol=0):
            return {
                "rope_type": "llama3",
                "rope_theta": keys.rope_base,
                "factor": factor,
                "low_freq_factor": LOW_FREQUENCY_FACTOR,
                "high_freq_factor": HIGH_FREQUENCY_FACTOR,
                "original_max_position_embeddings": context,
            }
    raise _not_llama3(f"found {_shown(factors)}")


def llama3_factors(wavelengths: np.ndarray, factor: float, context: int) -> np.ndarray:
    """Divisors of the frequencies by Llama 3's rule (transformers, `_compute_llama3_parameters`).

    Short waves stay, long ones are divided by `factor`, those between change smoothly.
    """
    span = HIGH_FREQUENCY_FACTOR - LOW_FREQUENCY_FACTOR
    smooth = np.clip((context / wavelengths - LOW_FREQUENCY_FACTOR) / span, 0.0, 1.0)
    return 1 / ((1 - smooth) / factor + smooth)


def _context(factors: np.ndarray, factor: float, wavelengths: np.ndarray) -> int | None:
    """The original context length by the first factor between the extremes, if there is one."""
    between = (factors > 1 + _TOLERANCE) & (factors < factor * (1 - _TOLERANCE))
    if not between.any():
        return None
    index = int(between.argmax())
    smooth = (1 / float(factors[index]) - 1 / factor) / (1 - 1 / factor)
    span = HIGH_FREQUENCY_FACTOR - LOW_FREQUENCY_FACTOR
    return round(float(wavelengths[index]) * (LOW_FREQUENCY_FACTOR + span * smooth))


def _shown(factors: np.ndarray) -> str:
    return np.array2string(factors, threshold=8, precision=4)


def _not_llama3(finding: str) -> ConfigError:
    return ConfigError(
        f"rope_freqs.weight: expected the factors of Llama 3's scaling, {finding}",
        hint="convert the Hugging Face checkpoint of this model, whose config.json has the numbers",
    )
