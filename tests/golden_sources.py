"""The golden packages as a runtime should read them, and how near their logits must come.

Both ends compute in float32, three layers deep: they differ by 1e-5 of the logits' standard
deviation at most, and a tolerance of 1e-4 stands well below the least of the faults in
`test_golden_faults.py` (1e-2).
"""

from golden import CASES, GOLDEN
from tensor_sources import Altered, edited, layers_of

from masu.runtime.loader import TensorSource
from masu.specs.blocks.rope import LongRoPEConfig
from masu.specs.package import Package

TOLERANCE = 1e-4

PROPORTIONAL = LongRoPEConfig(
    type="LongRoPEConfig",
    base=1000000.0,
    max_sequence_length=512,
    head_dim=32,
    short_factor=(1.0,) * 4 + (1e30,) * 12,
    long_factor=(1.0,) * 4 + (1e30,) * 12,
    original_context_length=512,
    scaling_factor=1.0,
)
"""What golden/index.json expects, in words, of the full layers of `gemma4-text`."""


SHARP = {"gemma4-text": 5e-4}
"""Six layers of unscaled scores, and so of sharp softmax: transformers in float32 is 1.5e-4 away
from itself in float64."""

STORED = {"granite": 6e-3, "gpt_oss": 8e-3}
"""What lalamo loses by rounding in the file: Granite's folded multipliers, GPT-OSS's up biases."""


def rounding_bound(case: str) -> float:
    """The largest difference between float32 and float64 runs of the same package."""
    return SHARP.get(case, TOLERANCE)


def logits_bound(case: str) -> float:
    """The largest difference from the recorded logits, as a share of their standard deviation."""
    return STORED.get(case, rounding_bound(case))


def expected_source(case: str) -> TensorSource:
    """The package; where lalamo wrote a wrong config, with the value that the case expects."""
    package = Package.open(GOLDEN / case / "engine")
    difference = CASES[case].get("known_lalamo_difference", {})
    field, value = difference.get("where"), difference.get("expected")
    if value is None:
        return package

    def correct(decoder: dict) -> None:
        for index, layer in enumerate(layers_of(decoder)):
            if case == "gemma4-text":
                if layer["mixer_config"]["sliding_window_size"] is None:
                    layer["rope_config"] = PROPORTIONAL.model_dump(mode="json")
            elif field == "rope_config":
                layer["rope_config"] = value
            else:
                assert field == "mixer_config.sliding_window_size"
                layer["mixer_config"]["sliding_window_size"] = value[index]

    return Altered(package, edited(package.config, correct))
