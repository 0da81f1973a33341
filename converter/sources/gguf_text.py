"""tokenizer_config.json and generation_config.json of a GGUF file: roles, templates, sampling."""

import json
from collections.abc import Mapping
from typing import Any

import gguf

from masu.converter.sources.gguf_keys import SamplingKeys
from masu.converter.sources.gguf_vocabulary import Vocabulary

# A chat template ends a turn with one of these, and a file may still name another token, that
# which ends a document, as its end token. llama.cpp stops at all of them.
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>")


def tokenizer_config(vocabulary: Vocabulary, context_length: int) -> bytes:
    """The file's content as transformers would write it for a tokenizer.json alone."""
    roles = {role: vocabulary.tokens[index] for role, index in vocabulary.roles().items()}
    file: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": vocabulary.add_bos,
        "add_eos_token": vocabulary.keys.add_eos,
        **roles,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context_length,
    }
    templates = vocabulary.templates
    if list(templates) == ["default"]:
        file["chat_template"] = templates["default"]
    elif templates:
        file["chat_template"] = [
            {"name": name, "template": template} for name, template in templates.items()
        ]
    return json.dumps(file, ensure_ascii=False, indent=2).encode()


def generation_config(vocabulary: Vocabulary, sampling: SamplingKeys) -> bytes:
    """Stop tokens and the sampling that the file recommends."""
    ends = stop_ids(vocabulary)
    file = {
        "bos_token_id": vocabulary.keys.bos,
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
        "pad_token_id": vocabulary.keys.padding,
        **sampling.settings(),
    }
    given = {key: value for key, value in file.items() if value not in (None, [])}
    return json.dumps(given, indent=2).encode()


def stop_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids that end an answer: those with a key, then those that end a template's turns."""
    keys = vocabulary.keys
    named = [index for index in (keys.eos, keys.eot, keys.eom) if index is not None]
    written = [
        index
        for index, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
        if kind == gguf.TokenType.CONTROL
        and token in TURN_ENDS
        and _writes(vocabulary.templates, token)
    ]
    return list(dict.fromkeys([*named, *written]))


def _writes(templates: Mapping[str, str], token: str) -> bool:
    return any(token in template for template in templates.values())
