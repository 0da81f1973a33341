"""The chat of a golden package, with a model that gives written replies in turn."""

from collections.abc import Callable

import numpy as np
from golden import GOLDEN
from scripted_model import ScriptedModel

from masu.runtime.chat import ChatParts
from masu.runtime.sampling import Sampling
from masu.specs.codec import ChatCodecConfig
from masu.specs.model import MODEL_CONFIG, LanguageModelConfig
from masu.specs.text.chat_codec import ChatCodec
from masu.specs.text.tokenizer import PackageTokenizer

VOCAB, STOP = 322, 3
GREEDY = Sampling(temperature=0)


def scripted_parts(
    case: str, replies: list[str], **changes: str | None
) -> tuple[ChatParts, ScriptedModel]:
    """The codec and tokenizer of a golden package, and a model that gives these replies in turn."""
    folder = GOLDEN / case / "engine"
    config = MODEL_CONFIG.validate_json((folder / "config.json").read_text())
    assert isinstance(config, LanguageModelConfig)
    assert isinstance(config.token_codec_config, ChatCodecConfig)
    tokenizer = PackageTokenizer.open(folder / "tokenizer.json")
    codec = ChatCodec(config.token_codec_config.model_copy(update=changes))
    model = ScriptedModel(answering(tokenizer, replies), 4096)
    return ChatParts(model, tokenizer, codec, GREEDY, (1, STOP), (4096,)), model


def answering(tokenizer: PackageTokenizer, replies: list[str]) -> Callable[[list[int]], np.ndarray]:
    """The n-th assistant's turn of the prompt is answered with the n-th reply."""
    opening = tokenizer.encode("<|im_start|>assistant\n")

    def logits(ids: list[int]) -> np.ndarray:
        starts = [
            at + len(opening) for at in range(len(ids)) if ids[at : at + len(opening)] == opening
        ]
        row = np.zeros(VOCAB, np.float32)
        if starts:
            reply = [*tokenizer.encode(replies[len(starts) - 1]), STOP]
            row[reply[min(len(ids) - starts[-1], len(reply) - 1)]] = 50
        return row

    return logits
