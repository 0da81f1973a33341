"""From transformers' `rope_parameters` to the engine's rotary embeddings."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, TypeAdapter, ValidationError

from masu.converter.config import Positive
from masu.specs.blocks.rope import (
    LinearScalingRoPEConfig,
    LlamaRoPEConfig,
    LongRoPEConfig,
    RoPEConfig,
    UnscaledRoPEConfig,
    YARNRoPEConfig,
)
from masu.specs.errors import ConfigError


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rope_theta: Positive
    partial_rotary_factor: float = 1.0


class Default(_Parameters):
    rope_type: Literal["default"]


class Linear(_Parameters):
    rope_type: Literal["linear"]
    factor: Positive


class Llama3(_Parameters):
    rope_type: Literal["llama3"]
    factor: Positive
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


class Yarn(_Parameters):
    rope_type: Literal["yarn"]
    factor: Positive
    original_max_position_embeddings: int | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    @property
    def engine_factor(self) -> float:
        """The attention factor that the engine derives (arXiv:2309.00071, equation 22)."""
        return self._derived(1.0)

    @property
    def own_factor(self) -> float:
        """The attention factor that the config means (transformers, `_compute_yarn_parameters`)."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._derived(self.mscale) / self._derived(self.mscale_all_dim)
        return self.engine_factor

    def _derived(self, mscale: float) -> float:
        return 0.1 * mscale * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


class Proportional(_Parameters):
    """Frequencies of whole heads, of which only the first pairs are kept: the others stand still.

    Unlike partial rotation, which computes the frequencies of a narrower head.
    """

    rope_type: Literal["proportional"]
    factor: Positive = 1.0


class LongRope(_Parameters):
    rope_type: Literal["longrope"]
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int | None = None
    factor: Positive | None = None
    attention_factor: float | None = None


RopeParameters = Annotated[
    Default | Linear | Llama3 | Yarn | LongRope | Proportional, Discriminator("rope_type")
]
_ADAPTER: TypeAdapter[RopeParameters] = TypeAdapter(RopeParameters)


def read_rope(
    parameters: Mapping[str, Any] | None,
    *,
    head_dim: int,
    max_positions: int,
    original_positions: int | None = None,
    default_theta: float = 10000.0,
    partial: bool = False,
) -> RoPEConfig:
    """The engine's rotary embedding for one kind of layer.

    Args:
        parameters: transformers 5's `rope_parameters` (one entry of it, if it is per layer type).
        head_dim: channels of a head, of which `partial_rotary_factor` are rotated.
        max_positions: `max_position_embeddings`.
        original_positions: the config's own `original_max_position_embeddings`, if it has one.
        default_theta: the base where the config names none.
        partial: whether the family rotates only part of each head, if the config says so.

    Raises:
        ConfigError: an unknown type, a parameter that the engine cannot express.
    """
    rope = _parsed(parameters, default_theta, partial=partial)
    if isinstance(rope, Yarn):
        _require_factor("yarn", rope.own_factor, rope.engine_factor)
    return _engine_rope(rope, head_dim, original_positions, max_positions)


def read_scaled_rope(
    parameters: Mapping[str, Any] | None,
    *,
    head_dim: int,
    max_positions: int,
    default_theta: float = 10000.0,
) -> tuple[RoPEConfig, float | None]:
    """As `read_rope`, for whole heads whose YaRN may have an attention factor of its own.

    The engine turns queries and keys with the factor that it derives. The second value is the
    scale of the scores that makes up for it, None where there is nothing to make up for.
    """
    rope = _parsed(parameters, default_theta, partial=False)
    ratio = rope.own_factor / rope.engine_factor if isinstance(rope, Yarn) else 1.0
    scale = None if math.isclose(ratio, 1, rel_tol=1e-6) else head_dim**-0.5 * ratio**2
    return _engine_rope(rope, head_dim, None, max_positions), scale


def _parsed(
    parameters: Mapping[str, Any] | None, default_theta: float, *, partial: bool
) -> RopeParameters:
    if parameters is not None and not isinstance(parameters, Mapping):
        raise _refused([f"rope_parameters: expected an object, found {parameters!r}"])
    given = {"rope_type": "default", "rope_theta": default_theta, **(parameters or {})}
    if given.get("type") == given["rope_type"]:
        del given["type"]  # the older name of the same key, beside the newer
    try:
        rope = _ADAPTER.validate_python(given)
    except ValidationError as error:
        raise _refused([_problem(item) for item in error.errors()]) from None
    if not (partial or isinstance(rope, Proportional)) and rope.partial_rotary_factor != 1:
        raise _refused(
            [
                "rope_parameters.partial_rotary_factor: expected 1, this family rotates whole "
                f"heads, found {rope.partial_rotary_factor}"
            ]
        )
    return rope


def _original(in_rope: int | None, beside: int | None) -> int | None:
    """The original context, which may stand in two places of a config but not as two numbers."""
    if in_rope is not None and beside is not None and in_rope != beside:
        raise _refused(
            [
                f"original_max_position_embeddings: {beside} in the config, "
                f"{in_rope} in rope_parameters"
            ]
        )
    return in_rope or beside


def _engine_rope(
    rope: RopeParameters, head_dim: int, original_positions: int | None, max_positions: int
) -> RoPEConfig:
    original = _original(
        getattr(rope, "original_max_position_embeddings", None), original_positions
    )
    is_whole = isinstance(rope, Proportional)
    rotated = head_dim if is_whole else int(head_dim * rope.partial_rotary_factor)
    common = {"base": rope.rope_theta, "max_sequence_length": max_positions, "head_dim": rotated}
    match rope:
        case Default():
            return UnscaledRoPEConfig(type="UnscaledRoPEConfig", **common)
        case Linear():
            return LinearScalingRoPEConfig(
                type="LinearScalingRoPEConfig", **common, scaling_factor=rope.factor
            )
        case Llama3():
            return LlamaRoPEConfig(
                type="LlamaRoPEConfig",
                **common,
                scaling_factor=rope.factor,
                original_context_length=rope.original_max_position_embeddings,
                low_frequency_factor=rope.low_freq_factor,
                high_frequency_factor=rope.high_freq_factor,
            )
        case Yarn():
            return _yarn(rope, common, original or max_positions)
        case LongRope():
            return _long_rope(rope, common, original or max_positions, max_positions)
        case Proportional():
            return _proportional(rope, common, max_positions)


def _yarn(rope: Yarn, common: dict[str, Any], original: int) -> YARNRoPEConfig:
    return YARNRoPEConfig(
        type="YARNRoPEConfig",
        **common,
        scaling_factor=rope.factor,
        original_context_length=original,
        beta_fast=rope.beta_fast,
        beta_slow=rope.beta_slow,
        truncate=rope.truncate,
    )


def _long_rope(
    rope: LongRope, common: dict[str, Any], original: int, max_positions: int
) -> LongRoPEConfig:
    factor = max_positions / original
    derived = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    _require_factor("longrope", rope.attention_factor, derived)
    pairs = common["head_dim"] // 2
    problems = [
        f"rope_parameters.{name}: expected {pairs} factors (rotated pairs), found {len(given)}"
        for name, given in (("short_factor", rope.short_factor), ("long_factor", rope.long_factor))
        if len(given) != pairs
    ]
    if rope.factor is not None and not math.isclose(rope.factor, factor):
        problems.append(f"rope_parameters.factor: expected {factor}, found {rope.factor}")
    if problems:
        raise _refused(problems)
    return LongRoPEConfig(
        type="LongRoPEConfig",
        **common,
        short_factor=rope.short_factor,
        long_factor=rope.long_factor,
        original_context_length=original,
        scaling_factor=factor,
    )


STILL = 1e30
"""Divides a frequency so that no context is long enough for its pair to turn visibly."""


def _proportional(rope: Proportional, common: dict[str, Any], max_positions: int) -> RoPEConfig:
    """The engine has no word for it, but LongRoPE divides every pair's frequency by its own factor.

    Both lists are the same and `scaling_factor` is 1, so that neither the length of a context nor
    the temperature of the attention plays a part.
    """
    pairs = common["head_dim"] // 2
    turning = int(rope.partial_rotary_factor * common["head_dim"] // 2)
    if turning == pairs and rope.factor == 1:
        return UnscaledRoPEConfig(type="UnscaledRoPEConfig", **common)
    factors = (rope.factor,) * turning + (STILL,) * (pairs - turning)
    return LongRoPEConfig(
        type="LongRoPEConfig",
        **common,
        short_factor=factors,
        long_factor=factors,
        original_context_length=max_positions,
        scaling_factor=1.0,
    )


def _require_factor(rope_type: str, given: float | None, derived: float) -> None:
    if given is not None and not math.isclose(given, derived, rel_tol=1e-6):
        raise _refused(
            [
                f"rope_parameters.attention_factor: the engine's {rope_type} always uses "
                f"{derived:.6g}, found {given}"
            ]
        )


def _problem(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"] if part not in ROPE_TYPES)
    name = f"rope_parameters.{path}" if path else "rope_parameters.rope_type"
    if error["type"] == "union_tag_invalid":
        found = error["input"].get("rope_type")
        return f"{name}: expected one of {', '.join(ROPE_TYPES)}, found {found!r}"
    if error["type"] == "extra_forbidden":
        return f"{name}: expected no such key, found {error['input']!r}"
    return f"{name}: {error['msg'][0].lower()}{error['msg'][1:]}, found {error['input']!r}"


ROPE_TYPES = ("default", "linear", "llama3", "yarn", "longrope", "proportional")


def _refused(problems: list[str]) -> ConfigError:
    return ConfigError(
        "config.json: the rotary embedding cannot be expressed by the engine:", problems=problems
    )
