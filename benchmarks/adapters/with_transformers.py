"""transformers on torch's CPU kernels, in bfloat16 unless another type is asked for."""

import argparse
from collections.abc import Iterator, Sequence

import torch
from serving import serve
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache


class Transformers:
    def __init__(self, options: argparse.Namespace) -> None:
        torch.set_num_threads(options.threads)
        self.activations = options.dtype or "bfloat16"
        self._tokenizer = AutoTokenizer.from_pretrained(options.path)
        self._model = AutoModelForCausalLM.from_pretrained(
            options.path, dtype=getattr(torch, self.activations)
        ).eval()

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids)))

    @torch.inference_mode()
    def generate(self, ids: Sequence[int], max_tokens: int) -> Iterator[int]:
        given, cache = torch.tensor([list(ids)]), DynamicCache()
        for _ in range(max_tokens):
            out = self._model(given, cache=cache, use_cache=True, logits_to_keep=1)
            given = out.logits[:, -1].argmax(-1, keepdim=True)
            yield int(given)


if __name__ == "__main__":
    serve(Transformers, ["torch", "transformers"])
