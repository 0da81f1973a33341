"""What is fuzzed, and how: sound inputs, changed at random; only errors of masu may come out.

    python tests/fuzz_targets.py --minutes 10 [--target gguf] [--seed 1]

An input that ends otherwise, or takes too long, is written to tests/fuzz/corpus and named.
"""

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gguf_files import write_gguf
from golden import GOLDEN

from masu.converter.convert import accept_config
from masu.converter.sources.folder import parse_config
from masu.converter.sources.gguf import open_gguf
from masu.specs.container import Container
from masu.specs.errors import MasuError
from masu.specs.text.template import ChatTemplate
from masu.specs.text.tokenizer import PackageTokenizer

HERE = Path(__file__).parent
CORPUS = HERE / "fuzz" / "corpus"
MAX_SECONDS = 5.0
MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hé"},
    {"role": "assistant", "content": "<think>a</think>b"},
]
WORDS = (
    b"{% for i in range(9999) %}", b"{% endfor %}", b"{% set ns.a = ns %}", b"{{ ns }}", b"[ns.a]",
    b"namespace()", b"|tojson", b"*99999999", b"~", b"{% macro f(x) %}", b"{{ f(f) }}", b"]" * 300,
    b"[" * 300, b"{" * 300, b"1e999", b"NaN", b"-1", b"18446744073709551616", b"null", b"\\ud800",
    b"\x00" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b'"', b"{}", b"{%", b"%}",
    b".format(", b":9999}", b"a*a*", b"(a+)+", b"{1,99}", b"(?", b'"content":"', b'"Regex":"',
)  # fmt: skip
"""What is put into inputs beside random bytes."""


class Target(NamedTuple):
    """`run` is called with the input's bytes and a file that holds them."""

    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes, Path], object]


def _safetensors(data: bytes, path: Path) -> None:
    with Container.open(path) as container:
        for name in container.tensors:
            container.read(name)


def _config(data: bytes, path: Path) -> None:
    accept_config(parse_config(data, "config.json"), None, "fuzz")


def _template(data: bytes, path: Path) -> None:
    template = ChatTemplate(data.decode("utf-8", "replace"), "<s>", "</s>")
    template.render(MESSAGES)
    template.render(MESSAGES, tools=[{"function": {"name": "f"}}], add_generation_prompt=False)


def _tokenizer(data: bytes, path: Path) -> None:
    tokenizer = PackageTokenizer(data)
    for text in ("Hé  two", " " * 300 + "\n" * 300, "ab" * 300):
        tokenizer.decode(tokenizer.encode_prompt(text), skip_special=True)


def _tokenizer_seeds() -> list[bytes]:
    """Small ones, each with steps that golden tokenizers lack."""
    whole = json.loads((GOLDEN / "llama" / "engine" / "tokenizer.json").read_bytes())
    split = {"type": "Split", "pattern": {"Regex": r"\s*[\r\n]+|\s+(?!\S)|\p{L}{1,3}|\s+"},
             "behavior": "Isolated", "invert": False}  # fmt: skip
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "_"}
    steps = {"normalizer": {"type": "Sequence", "normalizers": [space, {"type": "NFKC"}]},
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]},
             "decoder": {"type": "Sequence", "decoders": [
                 {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Fuse"}]},
             "truncation": None, "padding": None}  # fmt: skip
    model = {**whole["model"], "vocab": {"a": 0, "b": 1, "ab": 2, "_": 3}, "merges": [["a", "b"]]}
    plain = {"version": "1.0", "added_tokens": [], "post_processor": None, **steps, "model": model}
    return [json.dumps(plain).encode(), json.dumps({**plain, "normalizer": None}).encode()]


def _gguf_seed() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.gguf"
        write_gguf(path, "llama")
        return [path.read_bytes()]


def _files(root: Path, pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(root.glob(pattern))]


TARGETS: Mapping[str, Target] = {
    "safetensors": Target(lambda: _files(GOLDEN, "llama*/hf/model.safetensors"), _safetensors),
    "gguf": Target(_gguf_seed, lambda data, path: open_gguf(path)),
    "config": Target(lambda: _files(GOLDEN, "*/hf/config.json"), _config),
    "tokenizer": Target(_tokenizer_seeds, _tokenizer),
    "template": Target(lambda: _files(HERE / "chat_templates", "*.jinja"), _template),
}


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, taken out, doubled or put in; often near the front, where headers are."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        reach = len(data) if chance.random() < 0.5 else min(len(data), 2048)
        place = chance.randrange(reach + 1)
        match chance.randrange(5):
            case 0:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[place : place + chance.choice((1, 4, 40, 4000))]
            case 2:
                data[place:place] = chance.choice(WORDS)
            case 3:
                word = chance.choice(WORDS)
                data[place : place + len(word)] = word
            case 4:
                data[place:place] = data[place : place + chance.choice((8, 64, 512))]
    return bytes(data)


def problem(target: Target, data: bytes, path: Path) -> str | None:
    """What is wrong with how an input ends; None if it is read, or refused as it should be."""
    path.write_bytes(data)
    began = time.process_time()
    try:
        target.run(data, path)
    except MasuError:
        pass
    except KeyboardInterrupt:
        raise
    except BaseException:  # a library's panic is no Exception
        return traceback.format_exc()
    seconds = time.process_time() - began
    return f"took {seconds:.1f} s" if seconds > MAX_SECONDS else None


def fuzz(name: str, seconds: float, seed: int) -> Iterator[tuple[bytes, str]]:
    """Inputs with the problems that they showed, for as long as that."""
    target, chance, end = TARGETS[name], random.Random(seed), time.monotonic() + seconds
    seeds = target.seeds()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"fuzz.{name}"
        while time.monotonic() < end:
            data = mutated(chance.choice(seeds), chance)
            # A crash of the process leaves the input that led to it here.
            found = problem(target, data, path)
            if found is not None:
                yield data, found


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    names, count = chosen.target or list(TARGETS), 0
    for name in names:
        kinds: set[str] = set()
        for data, found in fuzz(name, 60 * chosen.minutes / len(names), chosen.seed):
            kind = found.strip().splitlines()[-1][:100]
            if kind not in kinds:
                kinds.add(kind)
                count += 1
                place = CORPUS / f"{name}-{chosen.seed}-{len(kinds)}"
                place.write_bytes(data)
                print(f"{place}\n{found}", flush=True)
        print(f"{name}: {len(kinds)} kinds of problems", flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(_main())
