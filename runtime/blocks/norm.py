"""Root-mean-square and layer normalisation."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.loader import Loader
from masu.specs.blocks.norm import NormalizationConfig


class NormParameters(NamedTuple):
    """Wide vectors `[width]`; None where the config has none."""

    scales: Array | None
    biases: Array | None


def load(config: NormalizationConfig, loader: Loader, width: int) -> NormParameters:
    return NormParameters(
        loader.vector("scales", (width,), "F32") if config.has_scale else None,
        loader.vector("biases", (width,), "F32") if config.has_biases else None,
    )


def load_optional(
    config: NormalizationConfig | None, loader: Loader, width: int
) -> NormParameters | None:
    return None if config is None else load(config, loader, width)


def apply(
    backend: Backend,
    config: NormalizationConfig | None,
    parameters: NormParameters | None,
    x: Array,
) -> Array:
    """`[..., width]`; a norm that the config leaves out changes nothing."""
    if config is None or parameters is None:
        return x
    return backend.norm(x, config, parameters.scales, parameters.biases)
