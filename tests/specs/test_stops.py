"""Stop tokens are the union of all that name one, and each knows who did."""

import json
from typing import Any

import pytest
from golden import ENGINE_CASES, GOLDEN

from masu.specs.errors import TextError
from masu.specs.text.stops import CONFIG, GENERATION, TOKENIZER, StopSet


def test_origins_are_recorded() -> None:
    stops = StopSet.collect({"eos_token_id": 5}, {"eos_token_id": [7, 5]}, 2)
    assert stops.origins == {5: (CONFIG, GENERATION), 7: (GENERATION,), 2: (TOKENIZER,)}
    assert stops.ids == (2, 5, 7)


def test_the_package_has_those_of_the_two_files() -> None:
    assert StopSet.collect({"eos_token_id": [9, 5]}, {}, 2).package_ids == (5, 9)
    assert StopSet.collect({}, None, 2).package_ids == ()
    assert StopSet.collect({"eos_token_id": None}).ids == ()


CASES = [
    case
    for case in ENGINE_CASES
    if (GOLDEN / case / "hf" / "generation_config.json").exists() and case != "llamba"
]
"""llamba has fixed ids of its own; a classifier generates nothing."""


@pytest.mark.parametrize("case", CASES)
def test_golden_packages_have_the_same_stops(case: str) -> None:
    config, generation = (
        json.loads((GOLDEN / case / "hf" / name).read_text())
        for name in ("config.json", "generation_config.json")
    )
    package = json.loads((GOLDEN / case / "engine" / "config.json").read_text())
    config = {**config, **config.get("text_config", {})}
    expected = package["generation_config"]["stop_token_ids"]
    assert list(StopSet.collect(config, generation).package_ids) == expected


@pytest.mark.parametrize("value", ["</s>", True, -1, 1.0, [1, "2"], [[1]], {"id": 1}, 2**64])
def test_what_is_no_id_is_refused(value: Any) -> None:
    with pytest.raises(TextError, match="expected token ids"):
        StopSet.collect({"eos_token_id": value})


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(TextError) as caught:
        StopSet.collect({"eos_token_id": "a"}, {"eos_token_id": ["b", 1]}, None)
    assert caught.value.problems == ("config.json: 'a'", "generation_config.json: 'b'")
