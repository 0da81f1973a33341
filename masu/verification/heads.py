"""Which class of transformers computes what a package does, or why none does."""

from typing import Any


class NoReference(Exception):
    """Why transformers cannot say what the source computes; the text is for people."""


def head_of(config: Any) -> Any:
    """The class of transformers that gives logits for this config; text comes first.

    Raises:
        NoReference: there is none.
    """
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForSequenceClassification,
    )

    heads = AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForImageTextToText
    for head in heads:
        if type(config) in head._model_mapping:
            return head
    raise NoReference(f"transformers has no model with logits for {type(config).__name__}")
