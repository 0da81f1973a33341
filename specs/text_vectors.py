"""Text test vectors: what a package made of some texts when it was converted, and always must."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, JsonValue

from masu.specs.strict import U64, Strict

Ids = tuple[U64, ...]


class TokenVector(Strict):
    """A text and its ids.

    Attributes:
        kind, name: what it is, and which one.
        text: the text.
        ids: without anything added.
        begun: as a text to be continued, with what tokenizer.json puts before one.
    """

    kind: Literal["tokens"]
    name: str
    text: str
    ids: Ids
    begun: Ids


class ChatVector(Strict):
    """A conversation, rendered for a reply.

    Attributes:
        kind, name: what it is, and which one.
        messages: what was said.
        tools: what the model was told of functions.
        variables: for the template, beside those of the package.
        prompt: null where the template refuses the conversation.
        ids: of the prompt.
    """

    kind: Literal["chat"]
    name: str
    messages: tuple[dict[str, JsonValue], ...]
    tools: tuple[dict[str, JsonValue], ...]
    variables: dict[str, JsonValue]
    prompt: str | None
    ids: Ids


class StopVector(Strict):
    """A token that ends a reply.

    Attributes:
        kind, name: what it is, and which one.
        id: the token.
        token: its spelling; null where the tokenizer has none.
        origins: the files that name it, where that is known.
    """

    kind: Literal["stop"]
    name: str
    id: U64
    token: str | None
    origins: tuple[str, ...]


class ReplyVector(Strict):
    """A reply and its parts.

    Attributes:
        kind, name: what it is, and which one.
        reply: the whole of it, marks included.
        reasoning: null where there is none.
        answer: the rest.
    """

    kind: Literal["reply"]
    name: str
    reply: str
    reasoning: str | None
    answer: str


TextVector: TypeAlias = Annotated[
    TokenVector | ChatVector | StopVector | ReplyVector, Discriminator("kind")
]
