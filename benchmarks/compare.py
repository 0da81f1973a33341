"""masu beside llama.cpp, mlx-lm, transformers and lalamo: one model, the same bits, one run.

    python benchmarks/compare.py --folder /tmp/compare --llama-python peers/bin/python \
        --mlx-python peers/bin/python

Each runtime loads once, in a process of its own (`adapters/`), from what `compare_weights.py` makes
of one GGUF file. In every round each is asked the same, one after the other: to read 1,024 tokens,
and to go on after 64. Who would need more than `--seconds` for one of these reads or writes fewer
tokens. The table gives medians, their spread, and ratios to masu; it goes to docs/speed.md with a
receipt (`--json F` writes all figures). Who cannot be imported, failed, or said nothing for
`--patience` seconds is named there, with the reason. Before that, each one's greedy tokens are
compared with those of transformers in float32.

    python benchmarks/compare.py --folder F --prompts            also the tasks of prompts.toml
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
from typing import Any

from compare_agreement import REFERENCE, agreement, of_reference
from compare_contenders import CONTENDERS, Field, Limits, interpreters, why_absent
from compare_first_token import first_token
from compare_generated import generated
from compare_prompts import read_tasks, task_answers
from compare_rounds import LONG, PROMPT, one_round, readable, summed
from compare_table import page
from compare_weights import MODELS, Model, Weights, prepare

from masu.machine import cpu_name, usable_cores
from masu.runtime.language_model import load
from masu.specs.package import WEIGHTS

GREEDY = 8
"""Tokens that are compared with the reference's."""
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
    parser.add_argument("--seconds", type=float, default=30.0, help="of a slow one's answer")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds without any answer")
    parser.add_argument("--dtype", help="of masu's activations")
    parser.add_argument("--json", type=Path, metavar="F", help="all figures, as JSON")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table goes")
    parser.add_argument("--prompts", action="store_true", help="also the tasks of prompts.toml")
    parser.add_argument("--task-tokens", type=int, default=32, help="of the answer to a task")
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


def absentees(pythons: Mapping[str, str]) -> dict[str, str]:
    """Who cannot be imported, and why."""
    reasons = {each.name: why_absent(pythons[each.name], each.module) for each in CONTENDERS}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def compared(model: Model, options: argparse.Namespace, pythons: Mapping[str, str]) -> Any:
    """All figures of one model: who was there, what each said, and how fast."""
    absent = absentees(pythons)
    mlx = None if "mlx-lm" in absent else pythons["mlx-lm"]
    weights = prepare(model, options.folder / model.name, mlx)
    opened = load(weights.paths["masu"])
    prompt = opened.tokenizer.encode_prompt(TEXT)[:LONG]
    state = opened.decoder.start(PROMPT + options.new_tokens).held_bytes
    tasks = read_tasks(opened) if options.prompts else []
    del opened
    wanted: list[list[int]] = []
    if REFERENCE.name not in absent:
        asked = [(prompt[:PROMPT], GREEDY), *((task.ids, options.task_tokens) for task in tasks)]
        python, path = pythons[REFERENCE.name], weights.paths[REFERENCE.name]
        wanted = of_reference(python, path, options.threads, asked)
    field = Field(Limits(options.seconds, options.patience))
    try:
        enter(field, absent, weights, pythons, options)
        found = {
            "agreement": agreement(field, prompt[:PROMPT], wanted[0]) if wanted else {},
            **measured(field, prompt, options),
            "tasks": task_answers(field, tasks, wanted[1:], options.task_tokens),
        }
    finally:
        field.close()
    if "masu" in field.left:
        raise SystemExit(f"masu: {field.left['masu']}")
    return {
        "absent": absent,
        "left": field.left,
        "seconds": options.seconds,
        "bits": weights.bits,
        "versions": {name: told["versions"] for name, told in field.told.items()},
        "activations": {name: told["activations"] for name, told in field.told.items()},
        "memory": memory(weights, state, found["rounds"]),
        **found,
    }


def enter(
    field: Field,
    absent: Mapping[str, str],
    weights: Weights,
    pythons: Mapping[str, str],
    options: argparse.Namespace,
) -> None:
    """Everyone who is there loads the weights."""
    for each in CONTENDERS:
        if each.name not in absent:
            more = ["--dtype", options.dtype] if each.name == "masu" and options.dtype else []
            path = weights.paths[each.name]
            field.enter(each, pythons[each.name], path, options.threads, *more)


def measured(field: Field, prompt: list[int], options: argparse.Namespace) -> dict[str, Any]:
    """All rounds but the first, and their figures."""
    lengths = readable(field, prompt)
    numbers = range(options.rounds + 1)
    _, *rounds = [one_round(field, prompt, lengths, options.new_tokens) for _ in numbers]
    figures = {name: figures for name in lengths if (figures := summed(name, rounds))}
    return {"figures": figures, "rounds": rounds}


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
