"""Compares a model with an independent one, each block on the input that the other's block had.

So a fault shows in the block it is in and nowhere else, rounding does not add up over the layers,
and a router that decides otherwise at a near tie changes one token of one block, not all behind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from masu.runtime.blocks.decoder import Entered
from masu.runtime.loader import TensorSource
from masu.runtime.reference import Stages
from masu.specs.blocks.mixer import is_recurrent
from masu.specs.footprint import layers
from masu.specs.model import LanguageModelConfig, TextModelConfig
from masu.verification.blocks import EXIT, entry_of, feeding, layer_of
from masu.verification.differences import Divergence
from masu.verification.near_ties import WatchingBackend, too_many
from masu.verification.staged import open_stages
from masu.verification.trace import Trace

BOUND = 1e-4
"""Largest difference in what a block adds to a token, as a share of its root mean square (of a
logit: of the logits' standard deviation). One block in float32 stays below 2e-5 of that in every
family; 2 % in one matrix of a block is 1e-3 or more."""

RECURRENT_BOUND = 1e-3
"""Recurrent states sum over the whole sequence, in an order that depends on how it is cut."""

ROUNDING = 4 * float(np.finfo(np.float32).eps)
"""What float32 moves an element of the stream by, as a share of itself: some channels are thousands
of times larger than what is added to them."""


@dataclass
class BlockErrors:
    """What a walk found.

    Attributes:
        errors: of every block that was compared, in order.
        diverging: the first block past its bound; the walk ends there.
        left_out: tokens of mixtures that were not compared, because their router was near a tie.
    """

    errors: dict[str, float] = field(default_factory=dict)
    diverging: Divergence | None = None
    left_out: int = 0

    @property
    def worst(self) -> float:
        return max(self.errors.values())


def walk(source: TensorSource, traces: Sequence[Trace]) -> BlockErrors:
    """Run every block of `source` in float64 on what the traces say it got.

    The parameters of a block are dropped before those of the next are read.
    """
    found, backend = BlockErrors(), WatchingBackend()
    config = source.config
    assert isinstance(config, TextModelConfig)  # `open_stages` admits no other
    stages = [open_stages(source, len(trace.ids), backend) for trace in traces]
    for block, error, left_out in _blocks(config, stages, traces, backend):
        limit = bound(config, block)
        found.errors[block] = error
        found.left_out += left_out
        if not error <= limit:
            found.diverging = Divergence(block, error, limit, feeding(config, block))
            break
    return found


def bound(config: TextModelConfig, block: str) -> float:
    if block in (entry_of(config), EXIT):
        return BOUND
    layer = layers(config)[int(block.rpartition(".")[2])]
    return RECURRENT_BOUND if is_recurrent(layer.mixer_config) else BOUND


def _blocks(
    config: TextModelConfig,
    stages: Sequence[Stages],
    traces: Sequence[Trace],
    backend: WatchingBackend,
) -> Iterator[tuple[str, float, int]]:
    """Each block's name, largest error, and how many tokens were left out."""
    with np.errstate(all="ignore"):  # what is not finite is infinitely far
        entered = _enter(stages, traces)
        pairs = zip(entered, traces, strict=True)
        error = max(_distance(one.stream, trace.given[0], None) for one, trace in pairs)
        yield entry_of(config), error, 0
        for index in range(len(layers(config))):
            error, left_out = _layer(index, stages, traces, entered, backend)
            yield layer_of(config, index), error, left_out
        yield EXIT, _exit(config, stages, traces), 0


def _enter(stages: Sequence[Stages], traces: Sequence[Trace]) -> list[Entered]:
    parameters = stages[0].entry()
    return [each.enter(t.ids, parameters) for each, t in zip(stages, traces, strict=True)]


def _layer(
    index: int,
    stages: Sequence[Stages],
    traces: Sequence[Trace],
    entered: Sequence[Entered],
    backend: WatchingBackend,
) -> tuple[float, int]:
    parameters = stages[0].parameters(index)
    errors, left_out, tokens = [], 0, 0
    for each, trace, own in zip(stages, traces, entered, strict=True):
        backend.reset()
        given = trace.given[index].astype(np.float64)
        made = each.layer(index, parameters, given, own)
        near = np.zeros(len(given), bool) if backend.near is None else backend.near
        left_out, tokens = left_out + int(near.sum()), tokens + len(near)
        kept = ~near
        if kept.any():
            errors.append(_distance(made[kept], trace.made[index][kept], given[kept]))
    if too_many(left_out, tokens) or not errors:
        return np.inf, left_out
    return max(errors), left_out


def _exit(config: TextModelConfig, stages: Sequence[Stages], traces: Sequence[Trace]) -> float:
    """One readout for all rows of all sequences; a classifier pools each by itself."""
    streams = [trace.given[-1].astype(np.float64) for trace in traces]
    if isinstance(config, LanguageModelConfig):
        found = [stages[0].leave(np.concatenate(streams))]
        expected = [np.concatenate([trace.logits for trace in traces])]
    else:
        found = [each.leave(x) for each, x in zip(stages, streams, strict=True)]
        expected = [trace.logits for trace in traces]
    return max(_spread_distance(f, e) for f, e in zip(found, expected, strict=True))


def _distance(found: np.ndarray, expected: np.ndarray, given: np.ndarray | None) -> float:
    """Of streams `[tokens, width]`, token by token: see `BOUND`."""
    added = expected if given is None else expected - given
    size = np.sqrt(np.mean(added.astype(np.float64) ** 2, axis=-1))
    beyond = np.maximum(np.abs(found - expected) - ROUNDING * np.abs(expected), 0).max(axis=-1)
    shares = np.divide(beyond, size, out=np.where(beyond > 0, np.inf, 0.0), where=size > 0)
    return _finite(float(shares.max()))


def _spread_distance(found: np.ndarray, expected: np.ndarray) -> float:
    worst, spread = float(np.abs(found - expected).max()), float(expected.std())
    return _finite(worst / spread if spread else worst)


def _finite(value: float) -> float:
    """NaN counts as infinitely far: a comparison with it must fail."""
    return value if np.isfinite(value) else float("inf")
