"""Rows of activations rounded to int8, on request: what that means, and that nothing else is."""

import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from format_cases import ramp
from golden import GOLDEN
from independent_decoder import rounded_row
from native_runs import BFLOAT16, CLASSES, FLOAT16, FLOAT32, UNIT, random, use
from shared_backends import shared_backend

import masu
from masu.cli.app import main
from masu.runtime.backend import Array, Backend
from masu.runtime.backends import load_backend
from masu.runtime.backends.native import library
from masu.runtime.backends.native.step_backend import StepBackend
from masu.runtime.contract import contract
from masu.runtime.contract.products import PLAIN as PLAIN_FORM
from masu.runtime.contract.products import Product, spec
from masu.runtime.contract.rounded import RoundedReference, rounded
from masu.runtime.contract.sound import SoundBackend
from masu.runtime.contract.subject import Subject, subject_of
from masu.runtime.language_model import load
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import SiLU
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.errors import RequestError

pytestmark = pytest.mark.usefixtures("kernel_settings")

PLAIN, ROUNDING = shared_backend("native"), load_backend("native", activations="int8")
PACKAGE = GOLDEN / "llama-mlx-4bit-g64" / "engine"
ROWS = (1, 2, 7, 16, 100, 1024)
INTEGER = {"type": "IntSpec", "is_symmetric": False}
KINDS = {
    "MLX": {"type": "MLXSpec"},
    "Int": INTEGER,
    "symmetric": {**INTEGER, "is_symmetric": True},
}


def codes(kind: str, bits: int, size: int, *shape: int, planes: Any = "group_major") -> Weight:
    form = spec(**KINDS[kind], bits=bits, group_size=size, layout="output_input")
    made = ramp(form, shape, planes)
    return Weight(made.spec, made.arrays, made.shape, made.planes)


def product(backend: Backend, x: np.ndarray, weight: Weight) -> np.ndarray:
    held = backend.hold(weight, x.dtype)
    return backend.to_numpy(backend.readout(backend.array(x), held))


def meant(x: np.ndarray) -> np.ndarray:
    return np.array([rounded_row(row) for row in x])


@cache
def drawn(rows: int, width: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Random rows, and what they are rounded to."""
    x = random(rows, width, dtype=dtype)
    return x, meant(x)


def test_what_rows_are_rounded_to() -> None:
    """Ties, runs of nothing, numbers below every scale, a last run that is short, NaN."""
    x = np.concatenate([random(3, 80), random(3, 80) * np.float32(1e-38), np.zeros((4, 80), "f4")])
    x[6, :5] = 127.0, 0.5, 1.5, -2.5, 63.5
    x[7, 40], x[8, 40], x[9, 79] = np.nan, np.inf, 1e-44
    x[7:9, 3] = 0.4999
    for dtype in (FLOAT32, np.dtype(np.float64)):
        np.testing.assert_array_equal(rounded(x.astype(dtype)), meant(x).astype(dtype))
    assert rounded(x)[6, :5].tolist() == [127.0, 0.0, 2.0, -2.0, 64.0]


# Tiles are 4, 8, 16 and 32 rows of weights, 64 and 128 columns, 1, 2, 4 and 128 rows.
EDGES = [(1, 16, 1), (3, 48, 5), (32, 64, 4), (33, 80, 3), (65, 144, 2), (31, 1024, 129)]


@pytest.mark.parametrize("name", library.INSTRUCTION_SETS)
@pytest.mark.parametrize(("height", "width", "rows"), EDGES)
def test_products_of_rounded_rows(name: str, height: int, width: int, rows: int) -> None:
    """As near to the exact product of the rounded row as other products are to theirs."""
    use(name)
    sizes = [size for size in (16, 32, 64, 128) if width % size == 0]
    cases = [(k, bits, size) for k in KINDS for bits in (4, 8) for size in sizes]
    for number, (kind, bits, size) in enumerate(cases):
        planes = ("group_major", "row_major")[number % 2]
        weight = codes(kind, bits, size, height, width, planes=planes)
        matrix = weight.decode(np.dtype(np.float64), np)
        x, whole = drawn(rows, width, (FLOAT32, BFLOAT16, FLOAT16)[number % 3])
        wanted = whole @ matrix.T
        bound = (width / 16 + 8) * UNIT * (np.abs(whole) @ np.abs(matrix).T) + 1e-30
        found = product(ROUNDING, x, weight)
        assert (np.abs(found - wanted) <= bound).all(), (kind, bits, size)


@pytest.mark.parametrize("name", library.INSTRUCTION_SETS)
@pytest.mark.parametrize("bits", [4, 8])
def test_a_rounded_row_is_the_same_alone_and_on_any_thread(name: str, bits: int) -> None:
    use(name)
    weight, x = codes("MLX", bits, 32, 70, 192), random(max(ROWS), 192, dtype=BFLOAT16)
    everything = product(ROUNDING, x, weight)
    for rows in ROWS:
        for threads in (1, 3):
            ROUNDING.set_threads(threads)
            assert (product(ROUNDING, x[:rows], weight) == everything[:rows]).all()
    for row in (0, 6, 99, 1023):
        assert (product(ROUNDING, x[row : row + 1], weight) == everything[row]).all()


@pytest.mark.parametrize("name", library.INSTRUCTION_SETS)
def test_rows_that_are_not_finite_are_not_rounded(name: str) -> None:
    """They are of the classes of plain arithmetic, and rows beside them keep their bits."""
    use(name)
    weight, x = codes("MLX", 4, 64, 40, 128), random(9, 128)
    before = product(ROUNDING, x, weight)
    matrix = weight.decode(FLOAT32, np)
    x[1, 127], x[4, 0], x[5, 3], x[8, 64] = np.nan, np.inf, -np.inf, np.nan
    found = product(ROUNDING, x, weight)
    with np.errstate(invalid="ignore"):
        wanted = x @ matrix.T
    for kind in CLASSES:
        assert (kind(found) == kind(wanted)).all()
    rest = [0, 2, 3, 6, 7]
    assert (found[rest] == before[rest]).all()


@pytest.mark.parametrize("name", library.INSTRUCTION_SETS)
@pytest.mark.parametrize("bits", [4, 8])
def test_large_rows_stay_finite_where_their_products_are(name: str, bits: int) -> None:
    """Whole numbers times a row's scale would leave float32 before a small weight's is met."""
    use(name)
    weight = codes("symmetric", bits, 32, 33, 128)
    small = {**weight.arrays, "scales": np.full_like(weight.arrays["scales"], 1e-9, np.float32)}
    weight = Weight(weight.format, small, weight.shape, weight.planes)
    x, ordinary = random(5, 128) * np.float32(3e36), random(5, 128)
    x[1::2] = ordinary[1::2]
    found = product(ROUNDING, x, weight)
    assert np.isfinite(found).all()
    assert (found[1::2] == product(ROUNDING, ordinary, weight)[1::2]).all()


def test_what_meets_no_counted_codes_is_not_rounded() -> None:
    fields = {"bits": 4, "group_size": 16, "bias_bits": None, "layout": "output_input"}
    other = ramp(spec(type="LloydMaxSpec", **fields), (40, 64), "group_major")
    weights = [
        Weight(PLAIN_FORM, {"weights": random(40, 64)}, (40, 64), "group_major"),
        Weight(other.spec, other.arrays, other.shape, other.planes),
    ]
    for weight in weights:
        x = random(3, 64, dtype=BFLOAT16)
        assert (product(ROUNDING, x, weight) == product(PLAIN, x, weight)).all()


def test_nothing_is_rounded_unless_it_is_asked_for() -> None:
    """The bits of products as they were before rows could be rounded, on processors alike."""
    found = {}
    for name in ("portable", "avx2", "avx512"):
        if library.use_instruction_set(name):
            made = [product(PLAIN, random(5, 192), codes(k, 4, 32, 70, 192)) for k in KINDS]
            found[name] = zlib.crc32(b"".join(each.tobytes() for each in made))
    assert found.items() <= BEFORE.items()


BEFORE = {"portable": 2298457660, "avx2": 1445567807, "avx512": 1445567807}


def test_two_models_of_one_process_do_not_meet() -> None:
    """Neither through a switch of the process nor through what was compiled."""
    ids = list(range(3, 20))
    plain = load(PACKAGE, backend="native")
    before = plain.logits(ids)
    rounding = load(PACKAGE, backend="native", activations="int8")
    found = rounding.logits(ids)
    assert (plain.logits(ids) == before).all()
    assert (load(PACKAGE, backend="native").logits(ids) == before).all()
    assert (rounding.logits(ids) == found).all()
    assert 0 < np.abs(found - before).max() < 0.1 * np.abs(before).max()


def test_a_step_of_one_row_has_the_bits_of_many() -> None:
    model = load(PACKAGE, backend="native", activations="int8").decoder
    ids, state, rows = list(range(3, 20)), model.start(17), []
    for each in ids:
        row, state = model.last_logits(state, [each])
        rows.append(row)
    assert model.why_in_parts is None
    assert (np.stack(rows) == model.logits(ids)).all()


@pytest.mark.parametrize("rows", [1, 5])
def test_a_gated_mlp_in_one_call_has_the_bits_of_two(rows: int) -> None:
    """Its first product and its gate are one call: this rounds what comes in, too."""
    weights = codes("MLX", 4, 32, 128, 64), codes("MLX", 4, 32, 64, 64)
    x, found = random(rows, 64, dtype=BFLOAT16), []
    for backend in (ROUNDING, PLAIN):
        up, down = (backend.hold(each, BFLOAT16) for each in weights)
        rest = up, None, down, None, SiLU(type="SiLU", alpha=1.0), None, None
        made = backend.gated_mlp(backend.array(x), *rest)
        assert isinstance(backend, StepBackend)
        apart = StepBackend.gated_mlp(backend, backend.array(x), *rest)
        assert (backend.to_numpy(made) == backend.to_numpy(apart)).all()
        found.append(backend.to_numpy(made))
    assert (found[0] != found[1]).any()


def test_an_expert_rounds_as_an_mlp_does() -> None:
    """Of two experts each row runs one: the bits of this one's projections, one by one."""
    up, down = codes("MLX", 4, 32, 2, 128, 64), codes("MLX", 4, 32, 2, 64, 64)
    config = DenseMLPConfig(
        type="DenseMLPConfig", linear_config=LinearConfig(),
        activation=SiLU(type="SiLU", alpha=1.0), has_up_biases=False, has_down_biases=False,
        gate_clipping=None, up_clipping=None,
    )  # fmt: skip
    x, chosen = random(6, 64, dtype=BFLOAT16), np.array([[0], [1], [1], [0], [1], [0]], np.int32)
    shares = np.ones((6, 1), np.float32)

    def experts(backend: Backend) -> np.ndarray:
        held = backend.hold(up, BFLOAT16), backend.hold(down, BFLOAT16)
        given = map(backend.array, (x, chosen, shares))
        rows, *choice = given
        out = backend.experts(rows, held[0], None, held[1], None, config, *choice)
        return backend.to_numpy(out)

    def alone(row: int) -> np.ndarray:
        place = int(chosen[row, 0])
        held = [ROUNDING.hold(each.at(place), BFLOAT16) for each in (up, down)]
        rows = ROUNDING.array(x[row : row + 1])
        out = ROUNDING.gated_mlp(rows, held[0], None, held[1], None, config.activation, None, None)
        return ROUNDING.to_numpy(out)[0]

    found = experts(ROUNDING)
    assert (found == np.stack([alone(row) for row in range(6)])).all()
    assert (found != experts(PLAIN)).any()


# The contract.


class SoundRounding(RoundedReference, SoundBackend):
    """Passes; the faults below are wrong in one way each."""

    roundings = ("int8",)

    def __init__(self) -> None:
        super().__init__()
        self.activations = "int8"


class NotRounded(SoundRounding):
    """It only says so."""

    def readout(self, x: Array, weight: Weight) -> Array:
        return SoundBackend.readout(self, x, weight)


class ScaleOfTheRow(SoundRounding):
    """One scale for all columns."""

    def readout(self, x: Array, weight: Weight) -> Array:
        x = self.wide(x)
        scales = np.abs(x).max(-1, keepdims=True, initial=0) / np.float32(127)
        return SoundBackend.readout(self, np.rint(x / scales) * scales, weight)


@pytest.mark.parametrize(
    ("backend", "passes"),
    [(SoundRounding, True), (NotRounded, False), (ScaleOfTheRow, False)],
)
def test_the_contract_sees_other_roundings(backend: type[SoundRounding], passes: bool) -> None:
    way, made = Product("readout", "MLX 4"), backend()
    judgement = contract.judged(Subject(made), [way], "tile edges")
    assert judgement.passed == passes


@pytest.mark.parametrize("way", [Product("readout", "MLX 4 in 32"), Product("linear", "Int 8")])
def test_rounding_kernels_pass_every_gate(way: Product) -> None:
    with subject_of(ROUNDING) as subject:
        for gate in contract.GATES:
            assert not contract.judged(subject, [way], gate).problems, gate


# Who rounds, and who says that it does not.


@pytest.mark.parametrize("name", ["jax", "numpy"])
def test_other_backends_refuse(name: str) -> None:
    with pytest.raises(RequestError, match="does not round") as refused:
        load_backend(name, activations="int8")
    assert "native" in (refused.value.hint or "")
    with pytest.raises(RequestError, match="does not round"):
        masu.load(PACKAGE, backend=name, activations="int8")
    with pytest.raises(RequestError, match="'int3'"):
        load_backend("native", activations="int3")


@pytest.mark.parametrize("command", ["run", "chat", "bench", "classify"])
def test_commands_hand_it_on(command: str) -> None:
    text = ["Hi"] if command in ("run", "classify") else []
    options = ["--backend", "numpy", "--activations", "int8"]
    done = CliRunner().invoke(main, [command, str(PACKAGE), *text, *options])
    assert done.exit_code != 0
    assert "does not round activations to 'int8'" in done.output + str(done.exception)
