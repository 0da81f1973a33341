"""masu beside llama.cpp, mlx-lm, transformers and lalamo: one model, the same bits, one run.

    python benchmarks/compare.py --folder /tmp/compare --llama-python peers/bin/python \
        --mlx-python peers/bin/python

Each runtime loads once, in a process of its own (`adapters/`), from what `compare_weights.py` makes
of one GGUF file. In every round each is asked the same, one after the other: to read 1,024 tokens,
and to go on after 64. The table gives medians, their spread, and ratios to masu; it goes to
docs/speed.md with a receipt (`--json F` writes all figures). Who cannot be imported is named there,
with the reason. Before that, each one's greedy tokens are compared with those of transformers in
float32.

    python benchmarks/compare.py --folder F --generated 1.7B     the share of the memory's speed
    python benchmarks/compare.py --folder F --first-token        `masu run`, process start included

Run it on a machine that does nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from compare_contenders import CONTENDERS, Running, interpreters, why_absent
from compare_first_token import first_token
from compare_generated import generated
from compare_table import page
from compare_weights import MODELS, Model, Weights, prepare

from masu.machine import cpu_name, usable_cores
from masu.runtime.language_model import load
from masu.specs.package import WEIGHTS

PROMPT, LONG = 64, 1024
"""Tokens of the prompt that is gone on from, and of the one that is only read."""
REFERENCE = "transformers"
MARGIN = 400_000_000
"""Bytes beside mapped weights and state that a process may take while it decodes."""
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the weights go")
    parser.add_argument("--model", choices=[m.name for m in MODELS], action="append")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--dtype", help="of masu's activations")
    parser.add_argument("--json", type=Path, metavar="F", help="all figures, as JSON")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table goes")
    parser.add_argument("--generated", metavar="SIZE", help="a generated model of this size: 1.7B")
    parser.add_argument("--first-token", action="store_true")
    for name in ("llama", "mlx", "transformers", "lalamo"):
        parser.add_argument(f"--{name}-python", help=f"a Python in which {name} is installed")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    record: dict[str, Any] = {"receipt": receipt(options)}
    if options.generated:
        record["generated"] = generated(options)
    elif options.first_token:
        record["first_token"] = first_token(options)
    else:
        pythons = interpreters(
            {
                "llama.cpp": options.llama_python,
                "mlx-lm": options.mlx_python,
                "transformers": options.transformers_python,
                "lalamo": options.lalamo_python,
            }
        )
        chosen = [m for m in MODELS if not options.model or m.name in options.model]
        record["models"] = {model.name: compared(model, options, pythons) for model in chosen}
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if "models" in record:
        options.page.write_text(page(record))
    print(json.dumps(record, indent=1))


def receipt(options: argparse.Namespace) -> dict[str, Any]:
    root = Path(__file__).parents[1]
    commit = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    found = subprocess.run(commit, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "threads": options.threads,
        "load": os.getloadavg()[0],
        "commit": found or None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
    }


def compared(model: Model, options: argparse.Namespace, pythons: Mapping[str, str]) -> Any:
    """All figures of one model: who was there, what each said, and how fast."""
    absent = {c.name: why_absent(pythons[c.name], c.module) for c in CONTENDERS}
    mlx = None if absent["mlx-lm"] else pythons["mlx-lm"]
    weights = prepare(model, options.folder / model.name, mlx)
    opened = load(weights.paths["masu"])
    prompt = opened.tokenizer.encode_prompt(TEXT)[:LONG]
    state = opened.decoder.start(PROMPT + options.new_tokens).held_bytes
    del opened
    running: dict[str, Running] = {}
    for contender in CONTENDERS:
        if absent[contender.name] is None:
            path = weights.paths[contender.name]
            more = ["--dtype", options.dtype] if contender.name == "masu" and options.dtype else []
            python = pythons[contender.name]
            print(f"{model.name}: {contender.name} loads", file=sys.stderr)
            running[contender.name] = Running(contender, python, path, options.threads, *more)
    try:
        agreements = agreement(running, pythons, weights, prompt[:PROMPT], options)
        rounds = [one_round(running, prompt, options) for _ in range(options.rounds + 1)][1:]
    finally:
        for each in running.values():
            each.close()
    return {
        "absent": {name: reason for name, reason in absent.items() if reason is not None},
        "bits": weights.bits,
        "versions": {name: each.told["versions"] for name, each in running.items()},
        "agreement": agreements,
        "figures": {name: summed(name, rounds) for name in running},
        "memory": memory(weights, state, rounds),
        "rounds": rounds,
    }


def agreement(
    running: Mapping[str, Running],
    pythons: Mapping[str, str],
    weights: Weights,
    prompt: list[int],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Of each contender: greedy tokens equal to the reference's until the first other one, and how
    many of the reference's tokens it chooses after the reference's own beginning.
    """
    count = 8
    contender = next(each for each in CONTENDERS if each.name == REFERENCE)
    if REFERENCE not in running:
        return {}
    python, path = pythons[REFERENCE], weights.paths[REFERENCE]
    reference = Running(contender, python, path, options.threads, "--dtype", "float32")
    wanted = reference.ask(prompt, count)["ids"]
    reference.close()
    found = {}
    for name, each in running.items():
        print(f"{name} is compared with the reference", file=sys.stderr)
        own = each.ask(prompt, count)["ids"]
        equal = next(
            (i for i, ids in enumerate(zip(own, wanted, strict=True)) if len(set(ids)) > 1), count
        )
        guided = [each.ask([*prompt, *wanted[:i]], 1)["ids"][0] for i in range(count)]
        same = sum(a == b for a, b in zip(guided, wanted, strict=True))
        found[name] = {"greedy_equal": equal, "same_choice": same, "of": count}
    return found


def one_round(
    running: Mapping[str, Running], prompt: list[int], options: argparse.Namespace
) -> dict[str, Any]:
    """Everyone reads the long prompt, then everyone writes after the short one."""
    print("a round begins", file=sys.stderr)
    read = {name: each.ask(prompt, 1) for name, each in running.items()}
    written = {
        name: each.ask(prompt[:PROMPT], options.new_tokens) for name, each in running.items()
    }
    return {
        name: {
            "prefill": read[name]["prefill_tokens_per_second"],
            "decode": written[name]["decode_tokens_per_second"],
            "first_token": written[name]["first_token_seconds"],
            "resident": written[name]["resident_bytes"],
            "peak": written[name]["peak_bytes"],
        }
        for name in running
    }


def summed(name: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure the median, the lowest and the highest."""
    found = {}
    for figure in ("prefill", "decode", "first_token", "peak", "resident"):
        values = [each[name][figure] for each in rounds if each[name][figure] is not None]
        if values:
            found[figure] = {"median": median(values), "low": min(values), "high": max(values)}
    return found


def memory(weights: Weights, state: int, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """masu's resident bytes while it decodes, beside mapped weights, state and a margin."""
    mapped = (weights.paths["masu"] / WEIGHTS).stat().st_size
    resident = max(each["masu"]["resident"] or 0 for each in rounds)
    allowed = mapped + state + MARGIN
    figures = {"mapped": mapped, "state": state, "margin": MARGIN, "allowed": allowed}
    return {**figures, "resident": resident, "within": resident <= allowed}


TEXT = " ".join(
    f"In the {place} year the harbour counted {place * 37 % 211} ships with grain,"
    f" {place * 53 % 97} with timber and {place * 29 % 61} with salt; the keeper of the light"
    " wrote down their names."
    for place in range(1, 60)
)


if __name__ == "__main__":
    main()
