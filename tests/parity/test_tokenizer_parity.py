"""Raw text has the ids that transformers' tokenizer gives it: converted checkpoints, all of them.

A post-processor is what begins a text with a special token. None of the golden tokenizers has one,
so some are planted, also against `add_bos_token`, which transformers 5 does not read there.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import copy_golden, edit_json, golden_spec
from golden import CASES, GOLDEN
from transformers import AutoTokenizer

from masu.converter.sources.folder import open_folder
from masu.converter.text_import import import_text
from masu.specs.text.tokenizer import PackageTokenizer

LINES = [
    *json.loads((GOLDEN / "token-ids" / "token-ids.json").read_text())["lines"][::10],
    "<|im_start|>user\nHi<|im_end|>\n<think>so<think>",
    " <eos> a  <|im_end|> ",
]


def converted(folder: Path, case: str) -> PackageTokenizer:
    text = import_text(open_folder(folder), golden_spec(case), vocab_size=10**6)
    return PackageTokenizer(text.tokenizer)


CHECKPOINTS = sorted(case for case in CASES if (GOLDEN / case / "hf" / "tokenizer.json").is_file())


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_ids_are_those_of_transformers(case: str) -> None:
    folder = GOLDEN / case / "hf"
    reference, tokenizer = AutoTokenizer.from_pretrained(folder), converted(folder, case)
    for line in LINES:
        assert tokenizer.encode_prompt(line) == reference(line).input_ids


def begin_with_bos(file: dict[str, Any]) -> None:
    file["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<bos>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [0], "tokens": ["<bos>"]}},
    }


@pytest.mark.parametrize("add_bos_token", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_the_post_processor_alone_decides_on_the_begin_token(
    begins: bool, add_bos_token: bool, tmp_path: Path
) -> None:
    folder = copy_golden("llama", tmp_path / "hf")
    if begins:
        edit_json(folder / "tokenizer.json", begin_with_bos)
    change = {"add_bos_token": add_bos_token}
    edit_json(folder / "tokenizer_config.json", lambda config: {**config, **change})
    tokenizer, reference = converted(folder, "llama"), AutoTokenizer.from_pretrained(folder)
    for line in LINES:
        ids = tokenizer.encode_prompt(line)
        assert ids == reference(line).input_ids
        assert (ids[0] == 0) == begins
    # Unlike transformers' call, a text that begins with the token does not get a second one.
    assert tokenizer.encode_prompt("<bos>a").count(0) == 1
    assert reference("<bos>a").input_ids.count(0) == 1 + begins
