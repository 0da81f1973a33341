"""What chunks are worth: prefill of a recurrent block, against single steps and against a scan.

    python benchmarks/recurrent.py

Whole blocks with their projections, 1,024 tokens at width 1,024 in float32: as the runtime runs a
prompt (one compiled step for every 64 rows), in one step of all rows, as 1,024 compiled single
steps, and as one compiled `lax.scan` over the tokens between the same projections. Prints times,
ratios, and how far outputs and states are apart, as a share of their spread.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from masu.runtime import recurrence
from masu.runtime.backends.jax import JaxBackend
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.registry import MIXERS
from masu.runtime.model import PREFILL
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import Identity, SiLU
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.delta_net import DeltaNetConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mamba2 import Mamba2Config
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.tensors import Layout, Shape

WIDTH, TOKENS, RUNS = 1024, 1024, 5
FLOAT32 = np.dtype(np.float32)

NORM = NormalizationConfig(
    epsilon=1e-6,
    scale_offset=None,
    upcast_mode="only_normalization",
    subtract_mean=False,
    has_scale=True,
    has_biases=False,
)
MIXER_CONFIGS = {
    "DeltaNet": DeltaNetConfig(
        type="DeltaNetConfig",
        in_proj_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=False),
        out_proj_config=LinearConfig(),
        norm_config=NORM,
        num_heads=16,
        num_groups=16,
        head_dim=128,
        value_head_dim=128,
        kernel_size=4,
    ),
    "Mamba2": Mamba2Config(
        type="Mamba2Config",
        in_projection_config=LinearConfig(),
        out_projection_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=True),
        activation=Identity(type="Identity"),
        kernel_size=4,
        num_heads=32,
        num_groups=32,
        head_dim=64,
        state_dim=64,
        has_in_biases=False,
        has_out_biases=False,
    ),
    "GeneralMamba2": GeneralMamba2Config(
        type="GeneralMamba2Config",
        in_projection_config=LinearConfig(),
        out_projection_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=True),
        norm_config=NORM,
        norm_before_gate=False,
        activation=SiLU(type="SiLU", alpha=1.0),
        kernel_size=4,
        num_heads=32,
        num_groups=1,
        head_dim=64,
        state_dim=128,
        step_limits=(None, None),
        has_in_biases=False,
        has_out_biases=False,
    ),
}


class ScanBackend(JaxBackend):
    """The same blocks, but with recurrences token by token, in one loop of one program."""

    def recur(
        self, queries: Any, keys: Any, values: Any, log_decay: Any, beta: Any, state: Any
    ) -> tuple[Any, Any]:
        def step(state: Any, token: Any) -> tuple[Any, Any]:
            queries, keys, values, decay, beta = (None if x is None else x[None] for x in token)
            out, state = recurrence.recur(self, queries, keys, values, decay, beta, state)
            return state, out[0]

        state, out = jax.lax.scan(step, state, (queries, keys, values, log_decay, beta))
        return out, state


class RandomLoader:
    """Hands a block random parameters, whatever it asks for."""

    def __init__(self, backend: JaxBackend) -> None:
        self._backend, self._random = backend, np.random.default_rng(0)

    def under(self, name: str) -> "RandomLoader":
        return self

    def matrix(self, name: str, rows: int, columns: int, layout: Layout = "output_input") -> Weight:
        values = self._random.standard_normal((rows, columns), np.float32) / np.sqrt(columns)
        plain = FullPrecisionSpec(type="FullPrecisionSpec", layout=layout)
        stored = Weight(plain, {"weights": values}, (rows, columns), "group_major")
        return self._backend.hold(stored, FLOAT32)

    def vector(self, name: str, shape: Shape, dtype: str | None = None) -> Any:
        return self._backend.array(self._random.standard_normal(shape, np.float32))


class Block:
    """One mixer, compiled for one backend."""

    def __init__(self, config: Any, backend: JaxBackend) -> None:
        self._module, self._config, self._backend = MIXERS[type(config)], config, backend
        loader: Any = RandomLoader(backend)
        self._parameters = self._module.load(config, loader, WIDTH)
        self._apply = backend.compile(self._module.apply, config, donate=(2,))

    def run(self, x: np.ndarray, rows: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Outputs `[tokens, width]` in steps of so many rows, and the arrays of the last state."""
        state = self._module.start(self._backend, self._config, WIDTH, TOKENS, FLOAT32)
        outputs = []
        for start in range(0, len(x), rows):
            context = Context(np.int32(start), np.int32(start + rows), None, None)
            out, state = self._apply(self._parameters, x[start : start + rows], state, context)
            outputs.append(out)
        return np.concatenate(outputs), list(map(np.asarray, state))


def difference(left: tuple[Any, list[Any]], right: tuple[Any, list[Any]]) -> float:
    pairs = zip([left[0], *left[1]], [right[0], *right[1]], strict=True)
    return max(float(np.abs(a - b).max() / b.std()) for a, b in pairs)


def best_times(ways: Sequence[Callable[[], Any]]) -> list[float]:
    """Milliseconds of the fastest run of each, in turn, so that all meet the same machine."""
    times = [[_timed(way) for way in ways] for _ in range(RUNS)]
    return [min(column) * 1e3 for column in zip(*times, strict=True)]


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def row(name: str, config: Any) -> str:
    """One line of the table; what is compiled and compared first is timed then."""
    x = np.random.default_rng(1).standard_normal((TOKENS, WIDTH), np.float32)
    block, scan = Block(config, JaxBackend()), Block(config, ScanBackend())
    ways = [
        lambda: block.run(x, PREFILL),
        lambda: block.run(x, TOKENS),
        lambda: block.run(x, 1),
        lambda: scan.run(x, TOKENS),
    ]
    chunked, *others = [way() for way in ways]
    apart = max(difference(chunked, other) for other in others)
    steps, whole, single, scanned = best_times(ways)
    return (
        f"{name:14}{steps:7.0f} ms {whole:7.0f} ms {single:8.0f} ms {scanned:7.0f} ms"
        f"{single / steps:10.1f}{scanned / steps:10.2f}{scanned / whole:10.2f}{apart:11.1e}"
    )


def main() -> None:
    print(f"{TOKENS} tokens, width {WIDTH}, float32, {jax.default_backend()}; best of {RUNS}")
    print(f"A: steps of {PREFILL} rows. B: one step of {TOKENS}. C: single rows. D: a scan.")
    names = ("block", "A", "B", "C", "D", "C / A", "D / A", "D / B", "apart")
    print("{:14}{:>7}{:>11}{:>12}{:>11}{:>13}{:>10}{:>10}{:>11}".format(*names))
    for name, config in MIXER_CONFIGS.items():
        print(row(name, config))


if __name__ == "__main__":
    main()
