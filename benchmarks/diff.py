"""What `masu diff` costs on large packages: peak memory and time, of equal and of unlike ones.

    python benchmarks/diff.py [--gigabytes 1.0] [--folder DIR]

Writes two packages of random bfloat16 weights and one in 4 bits, compares them in processes of
their own, and prints one JSON line for each comparison.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from masu.specs.container_writer import write_container
from masu.specs.dialect import Dialect
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import WEIGHT_FORMAT, WeightFormat
from masu.specs.model import MODEL_CONFIG
from masu.specs.package_writer import PackageContents
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Entry, Matrix

BASE = Path(__file__).parent.parent / "tests/golden/llama/engine"
WIDTH, HIDDEN, LAYERS = 2048, 8192, 4
PIECE = 8 * 2**20

# Run in a process of its own, whose peak memory is then that of the comparison.
MEASURE = """
import json, resource, sys, time
import masu
start = time.perf_counter()
found = masu.diff(sys.argv[1], sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scale = 1 if sys.platform == "darwin" else 1024
print(json.dumps({"seconds": round(time.perf_counter() - start, 2),
                  "peak_mb": round(peak * scale / 1e6), "entries": len(found.entries)}))
"""


def config(gigabytes: float) -> Any:
    """The golden model with real widths; the vocabulary makes up the size."""
    values = json.loads((BASE / "config.json").read_text())
    decoder = values["decoder_config"]
    transformer = decoder["transformer_config"]
    transformer["model_dim"], transformer["hidden_dim"] = WIDTH, HIDDEN
    transformer["layer_configs"] = transformer["layer_configs"][:1] * LAYERS
    layers = LAYERS * 3 * WIDTH * HIDDEN * 2
    tables = 1 if "Tied" in decoder["embedding_config"]["type"][:4] else 2
    decoder["vocab_size"] = max(int((gigabytes * 1e9 - layers) / (tables * 2 * WIDTH)), 1024)
    return MODEL_CONFIG.validate_json(json.dumps(values))


def write(folder: Path, gigabytes: float, seed: int, bits: int | None) -> Path:
    model = config(gigabytes)
    stream = [planned(name, entry, seed, bits) for name, entry in model.tensors()]
    tokenizer = (BASE / "tokenizer.json").read_bytes()
    contents = PackageContents(config=model, stream=stream, tokenizer=tokenizer, dialect=Dialect())
    folder.mkdir()
    write_container(folder / "model.safetensors", contents.spelled, contents.metadata)
    (folder / "config.json").write_bytes(contents.config_json)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    return folder


def format_of(matrix: Matrix, bits: int | None) -> WeightFormat:
    spec: dict[str, Any] = {"type": "FullPrecisionSpec", "layout": matrix.layout}
    if bits is not None:
        spec |= {"type": "IntSpec", "bits": bits, "group_size": 32, "is_symmetric": False}
    return WEIGHT_FORMAT.validate_json(json.dumps(spec))


def planned(name: str, entry: Entry, seed: int, bits: int | None) -> PlannedTensor:
    if isinstance(entry, Matrix):
        format_ = format_of(entry, bits)
        stored = format_.arrays(entry.shape, "BF16", "group_major")
        arrays = {f"{name}.{suffix}": spec for suffix, spec in stored.items()}
    else:
        format_, arrays = None, {name: ArraySpec(entry.dtype or "BF16", entry.shape)}

    def read(start: int, stop: int) -> np.ndarray:
        raise NotImplementedError

    return PlannedTensor(
        name=name, format=format_, shape=entry.shape, arrays=arrays, read=read,
        pieces=partial(drawn, arrays, seed),
    )  # fmt: skip


def drawn(arrays: dict[str, ArraySpec], seed: int) -> Iterator[tuple[str, Piece]]:
    """Random values, a piece repeated as often as it takes: drawing a gigabyte is slow."""
    random = np.random.default_rng(seed)
    for name, spec in arrays.items():
        dtype = NUMPY_DTYPES[spec.dtype]
        count, room = int(np.prod(spec.shape)), PIECE // dtype.itemsize
        values = random.standard_normal(min(count, room), np.float32)
        piece = (values * 32).astype(np.uint8) if dtype == np.uint8 else values.astype(dtype)
        for start in range(0, count, room):
            yield name, piece[: min(room, count - start)]


def measured(what: str, a: Path, b: Path) -> None:
    command = [sys.executable, "-c", MEASURE, str(a), str(b)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    sizes = [round((at / "model.safetensors").stat().st_size / 1e9, 2) for at in (a, b)]
    print(json.dumps({"case": what, "gigabytes": sizes, **json.loads(done.stdout)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        root = Path(folder)
        a = write(root / "a", options.gigabytes, 0, None)
        measured("equal bytes", a, write(root / "same", options.gigabytes, 0, None))
        measured("every value differs", a, write(root / "b", options.gigabytes, 1, None))
        measured("another format", a, write(root / "int4", options.gigabytes, 0, 4))


if __name__ == "__main__":
    main()
