"""Contradictions are found in layers of every kind, and in attention inside another mixer."""

from collections.abc import Callable

import pytest
from golden import GOLDEN
from shared_backends import shared_backend
from tensor_sources import Random, edited, layers_of

from masu.runtime.model import load_model
from masu.specs.errors import SchemaError
from masu.specs.package import Package


def wrapped(fields: dict) -> Callable[[dict], None]:
    def edit(decoder: dict) -> None:
        layer = layers_of(decoder)[1]
        kind = {"type": "PositionScaledAttentionConfig", "beta": 0.1, "original_context_length": 8}
        layer["mixer_config"] = {**kind, "attention_config": {**layer["mixer_config"], **fields}}

    return edit


def in_parallel(fields: dict) -> Callable[[dict], None]:
    def edit(decoder: dict) -> None:
        layer = layers_of(decoder)[1]
        kept = {name: layer[name] for name in ("mlp_config", "rope_config")}
        kind = {"type": "ParallelLayerConfig", "norm_config": layer["pre_mlp_norm_config"]}
        layers_of(decoder)[1] = {
            **kind,
            "mixer_config": {**layer["mixer_config"], **fields},
            **kept,
        }

    return edit


@pytest.mark.parametrize("place", [wrapped, in_parallel])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"is_causal": False}, "layer 1: is_causal must be true"),
        ({"head_dim": 14}, "layer 1: rope_config.head_dim 32 is above head_dim 14"),
        ({"is_kv_sharing": True}, "layer 1: is_kv_sharing is True, kv_source_layer_index is None"),
    ],
)
def test_contradictions(
    place: Callable[[dict], Callable[[dict], None]], fields: dict, message: str
) -> None:
    config = Package.open(GOLDEN / "llama-tied/engine").config
    load_model(Random(edited(config, place({}))), backend=shared_backend("numpy"))
    with pytest.raises(SchemaError, match=message):
        load_model(Random(edited(config, place(fields))), backend=shared_backend("numpy"))
