r"""How text is cut before byte pairs are merged: the patterns that `tokenizer.ggml.pre` names.

Each pattern cuts every piece that the one before it left. The names and patterns are llama.cpp's
(`llm_tokenizer_bpe` in llama-vocab.cpp). Its letter cases are spelled out rather than folded, as
there: `(?i:'s)` would also take the long s. `\s` is any white space of Unicode in both engines.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s+(?!\S)|\s+"
_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|{_SPACES}"


def _tiktoken(digits: str) -> str:
    """The pattern of OpenAI's cl100k vocabulary, with that many digits to a piece."""
    return "|".join(
        (
            _CONTRACTIONS,
            r"[^\r\n\p{L}\p{N}]?\p{L}+",
            digits,
            r" ?[^\s\p{L}\p{N}]+[\r\n]*",
            r"\s*[\r\n]+",
            _SPACES,
        )
    )


@dataclass(frozen=True)
class PreTokenizer:
    """What a name stands for.

    Attributes:
        patterns: regular expressions (Oniguruma), applied in this order.
        ignore_merges: a piece that is a token as a whole is not put together from pairs.
        add_bos: whether text begins with the begin token if the file does not say.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


_LLAMA3 = PreTokenizer((_tiktoken(r"\p{N}{1,3}"),), ignore_merges=True, add_bos=True)
_CL100K = PreTokenizer((_tiktoken(r"\p{N}{1,3}"),))
_QWEN2 = PreTokenizer((_tiktoken(r"\p{N}"),))
_GPT = PreTokenizer((_GPT2,))
_DIGITS_APART = PreTokenizer((r"\p{N}", _GPT2))
# For files from before the names; kept by llama.cpp under this name.
_DEFAULT = PreTokenizer(
    (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
)

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    "command-r": _DIGITS_APART,
    "dbrx": _CL100K,
    "deepseek-r1-qwen": _QWEN2,
    "default": _DEFAULT,
    "exaone": _DIGITS_APART,
    "exaone4": _GPT,
    "falcon3": _LLAMA3,
    "gpt-2": _GPT,
    "lfm2": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "megrez": _QWEN2,
    "mpt": _GPT,
    "olmo": _GPT,
    "phi-2": _GPT,
    "qwen2": _QWEN2,
    "refact": _DIGITS_APART,
    "smaug-bpe": _CL100K,
    "smollm": _DIGITS_APART,
    "stablelm2": _QWEN2,
    "starcoder": _DIGITS_APART,
}
"""By the value of `tokenizer.ggml.pre`."""
