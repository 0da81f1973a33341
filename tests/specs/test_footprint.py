"""State sizes, counted by hand for the golden packages."""

import pytest
from golden import GOLDEN

from masu.specs.footprint import WINDOW_SLACK, layers, state_bytes
from masu.specs.package import CONFIG, read_config

KV = 2 * 2 * 32 * 2
"""Bytes a token takes in one layer: keys and values, 2 groups of 32, two bytes each."""
LONG = 5000


@pytest.mark.parametrize(
    ("case", "context", "expected"),
    [
        ("llama-tied", 0, 0),
        ("llama-tied", LONG, 3 * KV * LONG),
        ("mistral", 10, 2 * KV * 10),
        ("mistral", LONG, 2 * KV * (16 + WINDOW_SLACK)),
        # Two windowed layers with heads of 16, one full layer; the last three share their caches.
        ("gemma4-text", LONG, 2 * KV // 2 * (16 + WINDOW_SLACK) + KV * LONG),
        # q and k of 2 heads of 16, v of 4: 128 channels, 3 taps kept; states of 16 x 16 per head.
        ("qwen3_5", LONG, 3 * 4 * (4 * 16 * 16 + 128 * 3) + KV * LONG),
        ("lfm2", LONG, 2 * (64 * 2 * 2) + 2 * KV // 2 * LONG),
        # x of 4 heads of 32, B and C of 2 groups of 16: 192 channels.
        ("llamba", LONG, 2 * 4 * (4 * 32 * 16 + 192 * 3)),
        ("modernbert", LONG, 0),
    ],
)
def test_state_bytes(case: str, context: int, expected: int) -> None:
    config, _ = read_config(GOLDEN / case / "engine" / CONFIG)
    assert state_bytes(config, context, "BF16") == expected


def test_attention_state_follows_the_dtype() -> None:
    config, _ = read_config(GOLDEN / "llama-tied/engine" / CONFIG)
    assert state_bytes(config, 7, "F32") == 2 * state_bytes(config, 7, "BF16")


@pytest.mark.parametrize(("case", "count"), [("llama-tied", 3), ("modernbert", 4)])
def test_layers_of_every_kind_of_model(case: str, count: int) -> None:
    config, _ = read_config(GOLDEN / case / "engine" / CONFIG)
    assert len(layers(config)) == count
