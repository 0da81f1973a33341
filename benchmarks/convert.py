"""What a conversion costs beside `cp` and beside other converters, in one interleaved run.

    python benchmarks/convert.py --gigabytes 3.4 --rounds 3

Generates a random checkpoint in four shards, then times, in turn: `cp` and sync; `masu convert
--no-verify`, hashes included, and sync; and each peer that is installed. Every command is a
process of its own; peak memory is its `ru_maxrss`. The table gives medians and ratios to `cp`.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

TOKENIZER = Path(__file__).parents[1] / "tests" / "golden" / "llama-odd-vocab" / "hf"
SHARDS = 4


Shapes: TypeAlias = dict[str, tuple[int, ...]]

QUANTISED = ("_blocks", "_scales")
"""Names that end so hold bytes; all others are bfloat16."""


@dataclass(frozen=True)
class Layout:
    """A family's way to lay out a layer: config keys and tensor shapes per layer.

    `layer` gets the width, the width of the MLP or of an expert, and the rows of keys.
    """

    model_type: str
    layer: Callable[[int, int, int], Shapes]
    hidden: int
    config: dict[str, object] = field(default_factory=dict)


def attention(width: int, groups: int) -> Shapes:
    return {
        "self_attn.q_proj.weight": (width, width),
        "self_attn.k_proj.weight": (groups, width),
        "self_attn.v_proj.weight": (groups, width),
        "self_attn.o_proj.weight": (width, width),
    }


def llama_layer(width: int, hidden: int, groups: int) -> Shapes:
    return {
        **attention(width, groups),
        "mlp.gate_proj.weight": (hidden, width),
        "mlp.up_proj.weight": (hidden, width),
        "mlp.down_proj.weight": (width, hidden),
    }


def phi3_layer(width: int, hidden: int, groups: int) -> Shapes:
    return {
        "self_attn.qkv_proj.weight": (width + 2 * groups, width),
        "self_attn.o_proj.weight": (width, width),
        "mlp.gate_up_proj.weight": (2 * hidden, width),
        "mlp.down_proj.weight": (width, hidden),
    }


def mixtral_layer(width: int, hidden: int, groups: int) -> Shapes:
    moe = "block_sparse_moe"
    experts = {
        f"{moe}.experts.{index}.{name}.weight": (width, hidden) if name == "w2" else (hidden, width)
        for index in range(EXPERTS)
        for name in ("w1", "w2", "w3")
    }
    return {**attention(width, groups), f"{moe}.gate.weight": (EXPERTS, width), **experts}


def granitemoe_layer(width: int, hidden: int, groups: int) -> Shapes:
    moe = "block_sparse_moe"
    return {
        **attention(width, groups),
        f"{moe}.router.layer.weight": (EXPERTS, width),
        f"{moe}.input_linear.weight": (EXPERTS, 2 * hidden, width),
        f"{moe}.output_linear.weight": (EXPERTS, width, hidden),
    }


def gpt_oss_layer(width: int, hidden: int, groups: int) -> Shapes:
    return {
        **attention(width, groups),
        "self_attn.sinks": (HEADS,),
        "mlp.router.weight": (EXPERTS, width),
        "mlp.router.bias": (EXPERTS,),
        "mlp.experts.gate_up_proj_bias": (EXPERTS, 2 * hidden),
        "mlp.experts.down_proj_bias": (EXPERTS, width),
    }


def transposed_layer(width: int, hidden: int, groups: int) -> Shapes:
    return {
        **gpt_oss_layer(width, hidden, groups),
        "mlp.experts.gate_up_proj": (EXPERTS, width, 2 * hidden),
        "mlp.experts.down_proj": (EXPERTS, hidden, width),
    }


def mxfp4_layer(width: int, hidden: int, groups: int) -> Shapes:
    return {
        **gpt_oss_layer(width, hidden, groups),
        "mlp.experts.gate_up_proj_blocks": (EXPERTS, 2 * hidden, width // 32, 16),
        "mlp.experts.gate_up_proj_scales": (EXPERTS, 2 * hidden, width // 32),
        "mlp.experts.down_proj_blocks": (EXPERTS, width, hidden // 32, 16),
        "mlp.experts.down_proj_scales": (EXPERTS, width, hidden // 32),
    }


WIDTH, HEADS, GROUPS, VOCAB, EXPERTS = 2048, 32, 8, 49152, 32

MIXTURE: dict[str, object] = {"num_local_experts": EXPERTS, "num_experts_per_tok": 4}
GPT_OSS: dict[str, object] = {**MIXTURE, "head_dim": WIDTH // HEADS, "attention_bias": False}
LAYOUTS = {
    "dense": Layout("llama", llama_layer, 8192),
    "fused": Layout("phi3", phi3_layer, 8192),
    "per-expert": Layout("mixtral", mixtral_layer, 1024, MIXTURE),
    "packed": Layout(
        "granitemoe", granitemoe_layer, 1024, {**MIXTURE, "residual_multiplier": 0.35}
    ),
    "transposed": Layout("gpt_oss", transposed_layer, 1024, GPT_OSS),
    "mxfp4": Layout(
        "gpt_oss", mxfp4_layer, 1024, {**GPT_OSS, "quantization_config": {"quant_method": "mxfp4"}}
    ),
}


def generate(target: Path, name: str, gigabytes: float) -> int:
    """Write a checkpoint of about this size; returns its bytes of weights."""
    layout = LAYOUTS[name]
    group_rows = GROUPS * WIDTH // HEADS
    shapes = layout.layer(WIDTH, layout.hidden, group_rows)
    per_layer = sum(_bytes(name, shape) for name, shape in shapes.items())
    layers = max(1, round((gigabytes * 1e9 - 2 * VOCAB * WIDTH) / per_layer))
    tensors: Shapes = {
        "model.embed_tokens.weight": (VOCAB, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    for index in range(layers):
        prefix = f"model.layers.{index}"
        tensors |= {f"{prefix}.{name}": shape for name, shape in shapes.items()}
        tensors[f"{prefix}.input_layernorm.weight"] = (WIDTH,)
        tensors[f"{prefix}.post_attention_layernorm.weight"] = (WIDTH,)
    target.mkdir(parents=True)
    _write_config(target, layout, layers)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, target)
    return _write_shards(target, tensors)


def _write_config(target: Path, layout: Layout, layers: int) -> None:
    config = {
        "model_type": layout.model_type,
        "vocab_size": VOCAB,
        "hidden_size": WIDTH,
        "intermediate_size": layout.hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        **layout.config,
    }
    (target / "config.json").write_text(json.dumps(config))


def _write_shards(target: Path, tensors: Shapes) -> int:
    random = np.random.default_rng(0)
    names, weight_map, total = list(tensors), {}, 0
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        part = names[shard * len(names) // SHARDS : (shard + 1) * len(names) // SHARDS]
        values = {n: _random(random, n, tensors[n]) for n in part}
        weight_map |= dict.fromkeys(part, file)
        total += sum(value.nbytes for value in values.values())
        save_file(values, target / file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def _random(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random bytes, or bfloat16 values of ordinary size: the exponent is held near one."""
    if name.endswith(QUANTISED):
        return random.integers(120, 128, shape, dtype=np.uint8)
    bits = random.integers(0, 2**16, shape, dtype=np.uint16) & 0x83FF | 0x3C00
    return bits.view(ml_dtypes.bfloat16)


def _bytes(name: str, shape: tuple[int, ...]) -> int:
    return int(np.prod(shape)) * (1 if name.endswith(QUANTISED) else 2)


def generated_apart(target: Path, layout: str, gigabytes: float) -> int:
    """Generate in a process of its own: a child's `ru_maxrss` begins with its parent's memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(generate, target, layout, gigabytes).result()


@dataclass
class Contender:
    name: str
    command: Callable[[Path, Path], list[str]]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)


def contenders(peer_python: str | None) -> list[Contender]:
    masu = [sys.executable, "-m", "masu", "convert", "--no-verify"]
    found = [
        Contender("cp", lambda source, out: ["cp", "-r", str(source), str(out)]),
        Contender("masu convert", lambda source, out: [*masu, str(source), "-o", str(out)]),
    ]
    if peer_python and _imports(peer_python, "mlx_lm"):
        mlx = [peer_python, "-m", "mlx_lm", "convert"]
        found.append(
            Contender(
                "mlx_lm.convert",
                lambda source, out: [*mlx, "--hf-path", str(source), "--mlx-path", str(out)],
            )
        )
    return found


def _imports(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def measure(contender: Contender, source: Path, out: Path) -> None:
    """Run once, sync included, and note wall seconds, processor seconds and peak of the process."""
    # What pip installs is compiled to byte code; the code of an editable masu by its first run.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = contender.command(source, out)
    os.sync()
    start = perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    os.sync()
    contender.seconds.append(perf_counter() - start)
    contender.cpu_seconds.append(usage.ru_utime + usage.ru_stime)
    contender.peak_bytes.append(usage.ru_maxrss * 1024)
    if process.returncode:
        raise SystemExit(f"{contender.name} failed:\n{message.decode()}")


def report(layout: str, size: int, largest: int, found: list[Contender]) -> None:
    base = statistics.median(found[0].seconds)
    print(
        f"{layout}, {size / 1e9:.2f} GB in {SHARDS} shards, sync included; "
        f"the largest tensor of the package has {largest / 1e6:.0f} MB"
    )
    print(f"{'':16} {'median s':>9} {'min s':>7} {'max s':>7} {'x cp':>6} {'peak MB':>8}")
    for contender in found:
        middle = statistics.median(contender.seconds)
        print(
            f"{contender.name:16} {middle:9.2f} {min(contender.seconds):7.2f} "
            f"{max(contender.seconds):7.2f} {middle / base:6.2f} "
            f"{max(contender.peak_bytes) / 1e6:8.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gigabytes", type=float, default=3.4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", choices=LAYOUTS, action="append")
    parser.add_argument("--peer-python", help="a Python in which peers (mlx-lm) are installed")
    parser.add_argument("--folder", type=Path, help="where the files go; by default temporary")
    options = parser.parse_args()
    for layout in options.layout or ["dense"]:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            source = Path(folder) / "source"
            size = generated_apart(source, layout, options.gigabytes)
            found, largest = contenders(options.peer_python), 0
            for _ in range(options.rounds):
                for contender in found:
                    out = Path(folder) / "out"
                    measure(contender, source, out)
                    _check_size(contender, out, size)
                    largest = largest or _largest_tensor(out / "model.safetensors")
                    shutil.rmtree(out)
            report(layout, size, largest, found)


def _largest_tensor(path: Path) -> int:
    """Bytes, by the file's header; 0 where there is no such file."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    ranges = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    return max(stop - start for start, stop in ranges)


def _check_size(contender: Contender, out: Path, size: int) -> None:
    """A contender that wrote much less than it read did not do the job."""
    written = sum(path.stat().st_size for path in out.rglob("*.safetensors"))
    if written < 0.99 * size:
        raise SystemExit(f"{contender.name} wrote {written} bytes of {size}")


if __name__ == "__main__":
    main()
