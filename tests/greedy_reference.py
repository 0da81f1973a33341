"""Greedy answers of a transformers model, with how sure each token was."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class GreedyAnswer:
    """What follows a prompt, the stop token included.

    Attributes:
        margins: per token, by how much its logit exceeds the second best.
    """

    ids: list[int]
    margins: list[float]


def greedy_answer(
    model: "PreTrainedModel", prompt: Sequence[int], max_tokens: int, stop_ids: Sequence[int]
) -> GreedyAnswer:
    """The most likely token, again and again."""
    import torch

    ids, margins = [], []
    rest, cache = list(prompt), None
    with torch.no_grad():
        while len(ids) < max_tokens and not (ids and ids[-1] in stop_ids):
            step = model(torch.tensor([rest]), cache=cache, use_cache=True, logits_to_keep=1)
            best = torch.topk(step.logits[0, -1], 2)
            ids.append(int(best.indices[0]))
            margins.append(float(best.values[0] - best.values[1]))
            rest, cache = ids[-1:], step.cache
    return GreedyAnswer(ids, margins)


def reference_logits(model: "PreTrainedModel", ids: Sequence[int]) -> np.ndarray:
    """Logits `[tokens, vocab]` of a whole sequence."""
    import torch

    with torch.no_grad():
        return model(torch.tensor([list(ids)]), use_cache=False).logits[0].numpy()
