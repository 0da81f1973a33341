"""The package's tokenizer.json: text to ids and back, nothing cut, and nothing added unasked."""

from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from masu.specs.errors import RequestError, TextError
from masu.specs.freed_memory import give_back
from masu.specs.regular_file import read_regular
from masu.specs.text.tokenizer_file import read_tokenizer

MAX_TOKENIZER = 256 * 2**20
"""Bytes of tokenizer.json; about eight times the largest in use."""
LARGE = 2**20
"""Bytes of tokenizer.json from which reading it leaves much freed memory."""


class PackageTokenizer:
    """A tokenizer as the engine uses it: in a chat, special tokens come from the template alone.

    Args:
        data: bytes of tokenizer.json.
        where: the file, as messages call it.

    Raises:
        TextError: not a file of the tokenizers library, or one whose patterns or replacements can
            take forever.
    """

    def __init__(self, data: bytes, where: str = "tokenizer.json") -> None:
        self._bounded = read_tokenizer(data, where)
        self._tokenizer = self._bounded.tokenizer
        if len(data) > LARGE:
            give_back()

    @classmethod
    def open(cls, path: Path) -> "PackageTokenizer":
        """Of the tokenizer.json at `path`; TextError also where there is none."""
        return cls(read_regular(path, MAX_TOKENIZER, error=TextError), str(path))

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def base_size(self) -> int:
        """One more than the largest id of the vocabulary proper, without added tokens."""
        return max(self._tokenizer.get_vocab(with_added_tokens=False).values(), default=-1) + 1

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of the added tokens that are marked as special."""
        added = self._tokenizer.get_added_tokens_decoder()
        return frozenset(token_id for token_id, token in added.items() if token.special)

    def encode(self, text: str) -> list[int]:
        """Ids of the text. Special tokens spelled out in it become themselves; none is added.

        Raises:
            RequestError: the text holds half of a surrogate pair, which no UTF-8 text can.
            TextError: on this text the file's patterns can take too long.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(f"the text is not valid Unicode: {error.reason}") from None
        return self._bounded.encode(text, add_special_tokens=False).ids

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a text to be continued as it is: begun as tokenizer.json begins a text.

        These are the ids that a call of transformers' tokenizer gives: with the begin token if
        the file's post-processor puts one before a text. A text that begins with it already, as
        a rendered chat prompt may, does not get a second one.

        Raises:
            RequestError, TextError: as `encode`.
        """
        plain = self.encode(text)
        whole = self._bounded.encode(text, add_special_tokens=True)
        begin = sum(1 for _ in takewhile(bool, whole.special_tokens_mask))  # marks what was added
        repeated = plain[:begin] == whole.ids[:begin]
        return whole.ids[begin:] if repeated else whole.ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """Text of the ids. An id that the tokenizer does not know has no text."""
        return self._bounded.decode(list(ids), skip_special_tokens=skip_special)

    def id_of(self, token: str) -> int | None:
        """The id of a token by its exact spelling."""
        return self._tokenizer.token_to_id(token)

    def token(self, token_id: int) -> str | None:
        """The spelling of a token in the vocabulary (`Ġthe`, `<0x0A>`), None for an unknown id."""
        return self._tokenizer.id_to_token(token_id)
