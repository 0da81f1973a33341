"""Which layers see only a window: by `layer_types`, otherwise by the family's own rule."""

from collections.abc import Sequence
from typing import Protocol

from masu.specs.errors import ConfigError

FULL, SLIDING = "full_attention", "sliding_attention"


def windows(
    layer_types: Sequence[str] | None,
    rule: Sequence[bool],
    window: int | None,
) -> list[int | None]:
    """The sliding window of each layer, None where it attends to everything.

    Args:
        layer_types: transformers 5's list, one name per layer; it decides when it is there.
        rule: what the older keys say, True where the layer slides.
        window: the window's size; None or a layer that does not slide gives None.

    Raises:
        ConfigError: a wrong number of layer types, an unknown one, or a window without a size.
    """
    types = list(layer_types) if layer_types is not None else _names(rule)
    problems = [
        f"layer_types[{index}]: expected {FULL} or {SLIDING}, found {name!r}"
        for index, name in enumerate(types)
        if name not in (FULL, SLIDING)
    ]
    if len(types) != len(rule):
        problems.append(f"layer_types: expected {len(rule)} names, found {len(types)}")
    if SLIDING in types and window is None:
        problems.append("sliding_window: expected a size, found null, and layers that slide")
    if problems:
        raise ConfigError("config.json: the attention windows are not clear:", problems=problems)
    return [window if name == SLIDING else None for name in types]


def _names(rule: Sequence[bool]) -> list[str]:
    return [SLIDING if slides else FULL for slides in rule]


class UpperWindows(Protocol):
    """The keys by which Qwen configs put a window on their upper layers."""

    num_hidden_layers: int
    use_sliding_window: bool
    sliding_window: int | None
    max_window_layers: int
    layer_types: tuple[str, ...] | None


def upper_windows(config: UpperWindows) -> list[int | None]:
    """Windows on the layers at or above `max_window_layers`, if they are turned on at all."""
    window = config.sliding_window if config.use_sliding_window else None
    rule = [
        window is not None and index >= config.max_window_layers
        for index in range(config.num_hidden_layers)
    ]
    return windows(config.layer_types, rule, window)
