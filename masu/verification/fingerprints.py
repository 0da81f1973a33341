"""Records what the numbers of a package are, and says where they are no longer that.

Every tensor by itself, decoded; every block by what it makes of pseudo-random input of its own, so
that damage shows in the block it is in and not in those behind; and the config of every block,
because a window that is longer than the input changes no output.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from masu.runtime.admission import admit
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.mixer import parts
from masu.specs.fingerprints import BlockPrint, Fingerprints, Print
from masu.specs.footprint import layers
from masu.specs.model import LanguageModelConfig, TextModelConfig
from masu.specs.package import Package
from masu.specs.tensors import Matrix, Shape
from masu.verification.blocks import (
    EXIT,
    block_config,
    block_names,
    entry_of,
    layer_of,
    tensors_of,
)
from masu.verification.differences import Divergence
from masu.verification.near_ties import WatchingBackend
from masu.verification.noise import bits, noise
from masu.verification.prints import TOLERANCE, distance, print_of, print_of_rows
from masu.verification.staged import open_stages

TOKENS = 32
MOST_TOKENS = 256
"""The input is longer than every window that is shorter than this."""

EXIT_ROWS = 4
"""Of a vocabulary's logits for each token, few are enough; a classifier pools all tokens."""

IDS, STREAM = 31, 1000
"""Sequences of noise: the ids, and from here on the inputs of the layers."""


def fingerprints_of(package: Package) -> Fingerprints:
    """Reads every tensor twice, and runs each block once.

    Memory: the largest layer in float64, or a table as it is stored.
    """
    config = admit(package.config)
    tokens = _tokens(config)
    configs: list[dict[str, Any]] = []
    outputs, tensors = dict(_outputs(package, config, tokens)), tensors_of(config)
    blocks = [
        BlockPrint(
            name=name,
            config=_place(configs, block_config(config, name)),
            tensors=dict(_tensor_prints(package, tensors[name])),
            output=outputs[name],
        )
        for name in block_names(config)
    ]
    return Fingerprints(
        format_version=1, tokens=tokens, configs=tuple(configs), blocks=tuple(blocks)
    )


def divergences(found: Fingerprints, recorded: Fingerprints) -> Iterator[Divergence]:
    """Every block that is not what was recorded, in the order of the computation."""
    now = {block.name: block for block in found.blocks}
    for before in recorded.blocks:
        if before.name not in now:
            yield Divergence(before.name, np.inf, TOLERANCE, (), ("there is no such block",))
            continue
        block = now.pop(before.name)
        changed = tuple(_config_changes(block, before, found, recorded))
        names = [name for name, far in _tensor_distances(block, before) if far > TOLERANCE]
        errors = [far for _, far in _tensor_distances(block, before)]
        error = max([*errors, distance(block.output, before.output)])
        if changed or error > TOLERANCE:
            yield Divergence(before.name, error, TOLERANCE, tuple(names), changed)
    for name in now:
        yield Divergence(name, np.inf, TOLERANCE, (), ("no such block was recorded",))


def _tensor_distances(block: BlockPrint, before: BlockPrint) -> Iterator[tuple[str, float]]:
    for name in [*before.tensors, *(block.tensors.keys() - before.tensors.keys())]:
        both = block.tensors.get(name), before.tensors.get(name)
        yield name, np.inf if None in both else distance(*both)  # type: ignore[arg-type]


def _config_changes(
    block: BlockPrint, before: BlockPrint, found: Fingerprints, recorded: Fingerprints
) -> Iterator[str]:
    yield from config_changes(
        found.configs[block.config], recorded.configs[before.config], "config"
    )


def config_changes(found: Any, recorded: Any, place: str) -> Iterator[str]:
    """Where two JSON values differ: `mixer_config.sliding_window_size: 32 recorded, 16 found`."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        for key in [*recorded, *(found.keys() - recorded.keys())]:
            yield from config_changes(found.get(key), recorded.get(key), f"{place}.{key}")
    elif json.dumps(found) != json.dumps(recorded):
        yield f"{place}: {json.dumps(recorded):.60} expected, found {json.dumps(found):.60}"


def _tokens(config: TextModelConfig) -> int:
    mixers = (part for each in layers(config) for part in parts(each.mixer_config))
    windows = [
        mixer.sliding_window_size or 0 for mixer in mixers if isinstance(mixer, AttentionConfig)
    ]
    return max([TOKENS, *(window + 8 for window in windows if window + 8 < MOST_TOKENS)])


def _place(configs: list[dict[str, Any]], config: Mapping[str, Any]) -> int:
    if config not in configs:
        configs.append(dict(config))
    return configs.index(dict(config))


def _tensor_prints(package: Package, names: tuple[str, ...]) -> Iterator[tuple[str, Print]]:
    entries = dict(package.config.tensors())
    for name in names:
        entry = entries[name]
        if isinstance(entry, Matrix):
            yield name, _matrix_print(package, name, entry.shape)
        else:
            yield name, print_of(package.read(name))


def _matrix_print(package: Package, name: str, shape: Shape) -> Print:
    """Of what it decodes to; where its rows are apart, a few of them at a time."""
    weight_format, planes = package.formats[name], package.planes
    is_plain = weight_format.type == "FullPrecisionSpec"
    if is_plain or len(shape) != 2 or weight_format.rows_apart is None:
        return print_of(decoded(package, name, shape))
    arrays = _stored(package, name, shape)

    def rows(start: int, stop: int) -> np.ndarray:
        return weight_format.decode_rows(arrays, shape, start, stop, planes, np.float64)

    return print_of_rows(shape, rows)


def _stored(package: Package, name: str, shape: Shape) -> dict[str, np.ndarray]:
    suffixes = package.formats[name].arrays(shape, package.dtype, package.planes)
    return {suffix: package.read(f"{name}.{suffix}") for suffix in suffixes}


def decoded(package: Package, name: str, shape: Shape) -> np.ndarray:
    """What a matrix holds: as stored where it is stored plainly, otherwise decoded to float64."""
    weight_format = package.formats[name]
    arrays = _stored(package, name, shape)
    if weight_format.type == "FullPrecisionSpec":
        return arrays["weights"]
    return weight_format.decode(arrays, shape, package.planes, np.float64)


def _outputs(package: Package, config: TextModelConfig, tokens: int) -> Iterator[tuple[str, Print]]:
    """Each block with input of its own; what it shares with earlier ones comes from them."""
    network, stages = config.network, open_stages(package, tokens, WatchingBackend())
    width = network.transformer_config.model_dim
    ids = (bits(0, tokens, IDS) % np.uint64(network.vocab_size)).astype(np.int64)
    entered = stages.enter(ids)
    yield entry_of(config), print_of(entered.stream)
    for index in range(len(layers(config))):
        x = _stream(tokens, width, STREAM + index)
        out = stages.layer(index, stages.parameters(index), x, entered)
        yield layer_of(config, index), print_of(out)
    last = _stream(tokens, width, STREAM - 1)
    rows = last[:EXIT_ROWS] if isinstance(config, LanguageModelConfig) else last
    yield EXIT, print_of(stages.leave(rows))


def _stream(tokens: int, width: int, seed: int) -> np.ndarray:
    return noise(0, tokens * width, seed).reshape(tokens, width)
