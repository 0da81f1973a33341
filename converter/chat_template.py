"""Which of a checkpoint's chat templates the package carries, and why.

Precedence: the model's entry, its text and then a file that it names; chat_template.jinja,
chat_template.json, and the chat_template of tokenizer_config.json (transformers prefers the files
in the same way).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masu.converter.checkpoint import Checkpoint
from masu.specs.errors import TextError
from masu.specs.manifest import LedgerEntry
from masu.specs.models import ModelSpec
from masu.specs.text.template import strip_generation_tags

INTO = "config.json: token_codec_config.prompt_template"
RAW = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
"""For base models: what was said, one after the other."""

RAW_CLASSIFIER = RAW + "{{ eos_token }}"
"""For classifiers: the text between the tokens that tokenizers of encoders put around it."""


@dataclass(frozen=True)
class ChosenTemplate:
    """Attributes:
    source: for the engine, without generation tags.
    original: as the checkpoint has it.
    """

    source: str
    original: str
    files: Mapping[str, LedgerEntry]
    notes: tuple[str, ...] = ()


def choose_template(
    checkpoint: Checkpoint,
    settings: Mapping[str, Any],
    template_json: Any,
    spec: ModelSpec,
    raw: str = RAW,
) -> ChosenTemplate:
    """The template with the highest precedence; the ledger names it and those it wins over.

    Args:
        raw: for a model that has none.

    Raises:
        TextError: a list of named templates without `default`, or a template that is no text.
    """
    found = dict(_candidates(checkpoint, settings, template_json, spec))
    if not found:
        return ChosenTemplate(raw, raw, {}, ("no chat template: messages are joined as they are",))
    chosen, *others = found
    origin = checkpoint.text_origins.get(chosen)
    ledger = {chosen: LedgerEntry(status="used", into=(INTO,), reason=origin and f"from {origin}")}
    for where in others:
        same = found[where] == found[chosen]
        reason = f"{'equal to' if same else 'superseded by'} {chosen}"
        ledger[where] = LedgerEntry(status="inert", into=(), reason=reason)
    text, more = _one_template(found[chosen], chosen)
    return ChosenTemplate(strip_generation_tags(text), text, {**ledger, **more})


def _candidates(
    checkpoint: Checkpoint, settings: Mapping[str, Any], template_json: Any, spec: ModelSpec
) -> list[tuple[str, Any]]:
    jinja = checkpoint.texts.get("chat_template.jinja")
    in_json = None if template_json is None else template_json.get("chat_template")
    files = [
        ("chat_template.jinja", None if jinja is None else _decoded(jinja, checkpoint)),
        ("chat_template.json", in_json),
        ("tokenizer_config.json: chat_template", settings.get("chat_template")),
    ]
    files.sort(key=lambda candidate: candidate[0] not in checkpoint.text_origins)
    candidates = [("model entry: chat_template", spec.chat_template), *files]
    return [(where, value) for where, value in candidates if value is not None]


def _decoded(data: bytes, checkpoint: Checkpoint) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = checkpoint.where("chat_template.jinja")
        raise TextError(f"{where}: expected UTF-8 text: {error}") from None


def _one_template(value: Any, where: str) -> tuple[str, dict[str, LedgerEntry]]:
    """A template as text; of a list of named ones the `default`, the others left out by name."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, list):
        value = {entry.get("name"): entry.get("template") for entry in value}
    if not isinstance(value, dict) or not isinstance(value.get("default"), str):
        names = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
        raise TextError(
            f"{where}: expected a template or a list with one named default, found {names}"
        )
    reason = "the engine has one template; `default` is carried over"
    others = {
        f"{where}: {name}": LedgerEntry(status="left_out", into=(), reason=reason)
        for name in value
        if name != "default"
    }
    return value["default"], others
