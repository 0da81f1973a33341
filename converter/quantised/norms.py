"""Norms that store their whole scale, in a family whose checkpoints otherwise store scale - 1."""

import json
from typing import Any

from masu.specs.model import NetworkConfig


def with_whole_norms(network: NetworkConfig) -> NetworkConfig:
    """The same network without offsets: the 1 has been added to the stored scales."""
    return type(network).model_validate_json(json.dumps(_without_offsets(network.model_dump())))


def _without_offsets(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: None if k == "scale_offset" else _without_offsets(v) for k, v in value.items()}
    return [_without_offsets(item) for item in value] if isinstance(value, list | tuple) else value
