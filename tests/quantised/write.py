"""Writes this folder's fixtures: matrices on a grid, stored by the formats' own writers.

    python write.py mlx | compressed-tensors | bitsandbytes

Each needs the library of its name (mlx 0.32.4; compressed-tensors 0.20.1 and bitsandbytes 0.50.2
with torch). Scales have full 11-bit mantissas, so that bfloat16 must round them. A file holds the
projections of one attention block as the writer stores them, and under `expected.` the float32
values of the grid; of NF4 and MLX, what the writer's own decoder says.
"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).parent
SIZES = {"q_proj": 64, "k_proj": 32, "v_proj": 32}
COLUMNS = 64
GROUP = 32


def scales(rng, shape):
    """Float16 values with an odd 11-bit mantissa, in float32."""
    mantissas = 1024 + 2 * rng.integers(0, 512, shape) + 1
    return (mantissas * 2.0 ** rng.integers(-20, -14, shape)).astype(np.float32)


def codes(rng, rows, low, high, group):
    """Integers in which both ends occur in every group."""
    drawn = rng.integers(low, high + 1, (rows, COLUMNS // group, group))
    drawn[..., 0], drawn[..., 1] = low, high
    return drawn


def mlx():
    import mlx.core as mx  # pyright: ignore[reportMissingImports]

    rng, tensors = np.random.default_rng(1), {}
    for bits, name in ((4, "q_proj"), (3, "k_proj"), (6, "v_proj")):
        middle = 2 ** (bits - 1)
        q = codes(rng, SIZES[name], 0, 2**bits - 1, GROUP)
        s = scales(rng, q.shape[:2])
        values = ((q - middle) * s[..., None]).astype(np.float32).reshape(-1, COLUMNS)
        words, scale, bias = mx.quantize(mx.array(values), group_size=GROUP, bits=bits)
        assert np.array_equal(np.array(scale), s)
        decoded = mx.dequantize(words, scale, bias, group_size=GROUP, bits=bits)
        tensors[f"{name}.weight"] = np.array(words)
        tensors[f"{name}.scales"] = np.array(scale).astype(np.float16)
        tensors[f"{name}.biases"] = np.array(bias).astype(np.float16)
        tensors[f"expected.{name}"] = np.array(decoded)
    save_file(tensors, HERE / "mlx.safetensors")


def compressed_tensors():
    import torch
    from compressed_tensors.compressors.pack_quantized import PackedQuantizationCompressor  # pyright: ignore[reportMissingImports]
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme  # pyright: ignore[reportMissingImports]

    cases = {
        "group-asymmetric": (4, False, GROUP),
        "channel-symmetric": (8, True, None),
    }
    for case, (bits, symmetric, group) in cases.items():
        rng, tensors = np.random.default_rng(2), {}
        strategy = "channel" if group is None else "group"
        args = QuantizationArgs(
            num_bits=bits, symmetric=symmetric, strategy=strategy, group_size=group
        )
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        for name, rows in SIZES.items():
            low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
            q = codes(rng, rows, low, high, group or COLUMNS)
            s = scales(rng, q.shape[:2])
            z = np.zeros(q.shape[:2], np.int8)
            if not symmetric:
                z = rng.integers(low, high + 1, q.shape[:2]).astype(np.int8)
            values = ((q - z[..., None]) * s[..., None]).astype(np.float32).reshape(rows, COLUMNS)
            state = {"weight": torch.tensor(values), "weight_scale": torch.tensor(s)}
            state["weight_zero_point"] = torch.tensor(z)
            stored = PackedQuantizationCompressor.compress(state, scheme)
            stored["weight_scale"] = stored["weight_scale"].half()
            tensors |= {f"{name}.{key}": value.numpy() for key, value in stored.items()}
            tensors[f"expected.{name}"] = values
        save_file(tensors, HERE / f"compressed-tensors-{case}.safetensors")


def bitsandbytes():
    import torch
    from bitsandbytes import functional  # pyright: ignore[reportMissingImports]

    rng, tensors = np.random.default_rng(3), {}
    for name, rows in SIZES.items():
        q = rng.integers(-127, 128, (rows, COLUMNS))
        q[:, 0] = 127
        largest = scales(rng, (rows, 1)) * 8
        values = torch.tensor(q * largest / 127).half()
        stored, largest_found, _ = functional.int8_vectorwise_quant(values)
        assert np.array_equal(stored.numpy(), q)
        assert np.array_equal(largest_found.numpy(), largest[:, 0])
        tensors[f"{name}.weight"] = stored.numpy()
        tensors[f"{name}.SCB"] = largest_found.float().numpy()
        tensors[f"{name}.weight_format"] = np.array(0, np.uint8)
        tensors[f"expected.{name}"] = q.astype(np.float32) * (largest / np.float32(127))
    save_file(tensors, HERE / "bitsandbytes-int8.safetensors")

    tensors = {}
    for name, rows in SIZES.items():
        values = torch.tensor(rng.normal(0, 0.2, (rows, COLUMNS)).astype(np.float32))
        packed, state = functional.quantize_4bit(
            values, blocksize=64, compress_statistics=True, quant_type="nf4"
        )
        tensors[f"{name}.weight"] = packed.numpy()
        for key, value in state.as_dict(packed=True).items():
            tensors[f"{name}.weight.{key}"] = value.numpy()
        tensors[f"expected.{name}"] = functional.dequantize_4bit(packed, state).float().numpy()
    save_file(tensors, HERE / "bitsandbytes-nf4.safetensors")


if __name__ == "__main__":
    writers = {
        "mlx": mlx,
        "compressed-tensors": compressed_tensors,
        "bitsandbytes": bitsandbytes,
    }
    writers[sys.argv[1]]()
