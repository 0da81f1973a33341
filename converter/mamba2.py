"""Mamba-2 as Hugging Face checkpoints have it: keys, the block, and its rows of a weight table."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from masu.converter.assemble import SILU
from masu.converter.grouped_rows import parts
from masu.converter.table import Table, Target, View
from masu.converter.views import squeezed
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig

INFINITY = {"__float__": "Infinity"}
"""How transformers 5 writes it; JSON itself has no word for it."""

Limit = Annotated[float, BeforeValidator(lambda value: math.inf if value == INFINITY else value)]
"""A bound of the time step, in a config."""


def general_mamba2(
    *,
    num_heads: int,
    num_groups: int,
    head_dim: int,
    state_dim: int,
    kernel_size: int,
    norm: NormalizationConfig | None,
    step_limits: tuple[float, float],
    conv_biases: bool,
    in_biases: bool,
    out_biases: bool,
    norm_before_gate: bool = False,
) -> GeneralMamba2Config:
    """With SiLU after the convolution; infinite limits are no limits."""
    low, high = (limit if math.isfinite(limit) else None for limit in step_limits)
    return GeneralMamba2Config(
        type="GeneralMamba2Config",
        in_projection_config=LinearConfig(),
        out_projection_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=conv_biases),
        norm_config=norm,
        norm_before_gate=norm_before_gate,
        activation=SILU,
        kernel_size=kernel_size,
        num_heads=num_heads,
        num_groups=num_groups,
        head_dim=head_dim,
        state_dim=state_dim,
        step_limits=(low, high),
        has_in_biases=in_biases,
        has_out_biases=out_biases,
    )


def mamba2_weights(
    source: str,
    mixer: str,
    config: GeneralMamba2Config,
    *,
    in_weights: View | None = None,
    in_biases: View | None = None,
    out_values: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Table:
    """The rows of one mixer; the checkpoint has the gate before what is convolved.

    Args:
        source, mixer: where it is in the checkpoint and in the engine.
        in_weights, in_biases: views of the input projection, in the checkpoint's order of rows.
        out_values: changes the values of the output projection.
    """
    rows = parts((config.inner_dim, config.conv_dim, config.num_heads), (1, 0, 2))
    into, out = f"{mixer}.in_projection", f"{mixer}.out_projection"
    # fmt: off
    return {
        f"{source}.in_proj.weight":   Target(f"{into}.weights", view=in_weights, rows=rows),
        f"{source}.in_proj.bias":     Target(f"{into}.biases", view=in_biases, rows=rows),
        f"{source}.conv1d.weight":    Target(f"{mixer}.conv.weights", view=squeezed),
        f"{source}.conv1d.bias":      f"{mixer}.conv.biases",
        f"{source}.dt_bias":          f"{mixer}.dt_bias",
        f"{source}.A_log":            f"{mixer}.a_log",
        f"{source}.D":                f"{mixer}.skip_connection_weight",
        f"{source}.norm.weight":      f"{mixer}.norm.scales",
        f"{source}.out_proj.weight":  Target(f"{out}.weights", values=out_values),
        f"{source}.out_proj.bias":    Target(f"{out}.biases", values=out_values),
    }
    # fmt: on


def automatic_head_dim(given: Any, inner_dim: int, num_heads: int) -> int:
    """A head's width, where the config may leave it to the others."""
    return inner_dim // num_heads if given in (None, "auto") else given
