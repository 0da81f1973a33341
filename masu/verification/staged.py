"""A network as stages in float64 on numpy, each of which can be given any input."""

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import Backend
from masu.runtime.loader import Loader, TensorSource
from masu.runtime.reference import FLOAT64, Stages
from masu.specs.footprint import layers
from masu.verification.near_ties import WatchingBackend
from masu.verification.trace import Trace


def open_stages(source: TensorSource, tokens: int, backend: Backend) -> Stages:
    """For a sequence of so many tokens; no tensor is read yet."""
    config = admit(source.config)
    loader = Loader(source, backend, FLOAT64).under(config.ROOT)
    return Stages(config.network, loader, backend, tokens)


def own_trace(source: TensorSource, ids: np.ndarray) -> tuple[Trace, np.ndarray]:
    """What the reference computes of one sequence, and `[tokens]` where a router was near a tie.

    The parameters of a block are dropped before those of the next are read.
    """
    backend = WatchingBackend()
    stages = open_stages(source, len(ids), backend)
    entered = stages.enter(ids)
    given = [entered.stream]
    for index in range(len(layers(source.config))):
        given.append(stages.layer(index, stages.parameters(index), given[-1], entered))
    near = np.zeros(len(ids), bool) if backend.near is None else backend.near
    return Trace(ids, given, given[1:], stages.leave(given[-1])), near
