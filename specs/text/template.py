"""Renders a chat template in the engine's own template language (minijinja), as transformers would.

A template comes with a model and is not trusted: it loads nothing, its instructions and its output
are counted, and what it is given cannot be changed by it. What would escape the counters is
refused by its syntax (`template_growth`).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import minijinja

from masu.specs.errors import MasuError, RequestError, TextError
from masu.specs.text.sealed import sealed
from masu.specs.text.template_growth import check_growth
from masu.specs.text.template_size import check_size

FUEL = 50_000
"""Instructions that every template may execute; the longest in use need a tenth of it."""
FUEL_PER_BYTE = 20
"""And for each byte of the conversation and its tools, which a template may walk through."""
MAX_OUTPUT = 20_000_000
MAX_INDENT = 16

_GENERATION_TAG = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_RESERVED = ("messages", "tools", "add_generation_prompt")


def strip_generation_tags(template: str) -> str:
    """The template without `{% generation %}` and `{% endgeneration %}`, which engines do not know.

    They mark, for training only, what the assistant says. Nothing else changes: where such a tag
    trimmed the white space around it (`{%-`), that white space stays.
    """
    return _GENERATION_TAG.sub("", template)


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template with the special tokens it is given.

    Attributes:
        source: Jinja text, without generation tags.
        bos_token, eos_token: None is *undefined* in the template, as in transformers.
        clock: the time that `strftime_now` tells.

    Raises:
        TextError: the source does not compile, or is too large.
    """

    source: str
    bos_token: str | None = None
    eos_token: str | None = None
    clock: Callable[[], datetime] = datetime.now

    def __post_init__(self) -> None:
        check_size(self.source)
        check_growth(self.source)
        try:
            self._environment(fuel=0).add_template("chat_template", self._text)
        except minijinja.TemplateError as error:
            raise TextError(f"the chat template does not compile: {error.message}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The conversation as the text that the model was trained on.

        Differs from transformers in two known places: a whole number kept as a float loses its
        `.0` when it is handed to `tojson` by itself, and string methods that minijinja lacks
        (`rsplit`, `partition`, `removeprefix` ...) are errors.

        Args:
            messages: `{"role": ..., "content": ...}` and what else the template reads.
            add_generation_prompt: end with the opening of the assistant's turn.
            tools: JSON schemas of functions; None is *none* in the template, as in transformers.
            variables: what else the template is given (`enable_thinking` ...).

        Raises:
            RequestError: the template refuses these messages, or they are not JSON values.
            TextError: the template fails, or does more than it may.
        """
        context = self._context(messages, add_generation_prompt, tools, variables or {})
        environment = self._environment(FUEL + FUEL_PER_BYTE * _size(context))
        text = _run(environment, self._text, context)
        if len(text) > MAX_OUTPUT:
            raise TextError(
                f"the chat template wrote {len(text):,} characters, at most {MAX_OUTPUT:,} are read"
            )
        return text

    @property
    def _text(self) -> str:
        """Jinja reads every kind of line end as a newline; minijinja does not."""
        return re.sub(r"\r\n?", "\n", self.source)

    def _context(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any],
    ) -> dict[str, Any]:
        if clash := [name for name in _RESERVED if name in variables]:
            raise RequestError(f"template variables cannot be called {', '.join(clash)}")
        special = {"bos_token": self.bos_token, "eos_token": self.eos_token}
        context = {
            **{name: token for name, token in special.items() if token is not None},
            "documents": None,
            **variables,
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        return {name: sealed(value, name) for name, value in context.items()}

    def _environment(self, fuel: int) -> minijinja.Environment:
        environment = minijinja.Environment(
            trim_blocks=True, lstrip_blocks=True, debug=False, fuel=fuel
        )
        environment.add_filter("tojson", _tojson)
        environment.add_global("raise_exception", _raise_exception)
        environment.add_global("strftime_now", lambda form: self.clock().strftime(form))
        return environment


def _size(context: Mapping[str, Any]) -> int:
    """Bytes of the context as JSON."""
    try:
        return len(json.dumps(context, ensure_ascii=False).encode())
    except UnicodeEncodeError as error:  # minijinja would put U+FFFD in its place
        raise RequestError(f"the messages are not valid Unicode: {error.reason}") from None


class _RefusedError(Exception):
    """The template itself called `raise_exception`."""


def _run(environment: minijinja.Environment, source: str, context: Mapping[str, Any]) -> str:
    try:
        return environment.render_str(source, "chat_template", **context)
    except _RefusedError as refusal:
        raise RequestError(f"the chat template refuses these messages: {refusal}") from None
    except minijinja.TemplateError as error:
        raise TextError(f"the chat template failed: {error.message}") from None
    except MasuError:
        raise
    except Exception as error:  # Python code that the template called with the wrong arguments
        raise TextError(f"the chat template failed: {type(error).__name__}: {error}") from error


def _raise_exception(message: Any) -> None:
    raise _RefusedError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON, as transformers has it: the language's own filter would escape HTML."""
    width = indent if isinstance(indent, int) else len(indent or "")
    if width > MAX_INDENT:
        raise TextError(f"the chat template asks for JSON indented by {width}, more than can be")
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=None if separators is None else (separators[0], separators[1]),
        sort_keys=sort_keys,
    )
