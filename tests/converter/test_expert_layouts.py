"""Experts one by one, packed, beside a shared one: what is stacked, and what is refused."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from checkpoints import copy_golden, edit_tensors, open_golden

import masu.pipeline
from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.group import Group
from masu.converter.table import Table, Target, match, second_half_first
from masu.specs.dtypes import dtype_name
from masu.specs.errors import TensorMismatch
from masu.specs.stream import FileRange

EXPERTS, ROWS, WIDTH = 3, 4, 2


def checkpoint(tensors: Mapping[str, np.ndarray]) -> Checkpoint:
    def source(name: str, values: np.ndarray) -> SourceTensor:
        place = FileRange(Path(name), 0, values.nbytes)
        return SourceTensor(
            name=name,
            dtype=dtype_name(values.dtype),
            shape=values.shape,
            location="here",
            read=lambda start, stop: values[start:stop],
            stored=place,
            raw=place,
        )

    sources = {name: source(name, values) for name, values in tensors.items()}
    return Checkpoint(name="test", config={}, tensors=sources, texts={}, identity={})


def group(table: Table, tensors: Mapping[str, np.ndarray]) -> Group:
    matches, problems = match(table, tensors)
    assert not problems
    return Group(matches, checkpoint(tensors))


def numbers(*shape: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape)


def one_by_one() -> dict[str, np.ndarray]:
    return {
        f"{e}.{half}": numbers(ROWS, WIDTH, start=100 * e + 50 * (half == "gate"))
        for e in reversed(range(EXPERTS))
        for half in ("gate", "up")
    }


def stacked(tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.stack(
        [np.concatenate([tensors[f"{e}.up"], tensors[f"{e}.gate"]]) for e in range(EXPERTS)]
    )


SHARED: Table = {"{e}.{up,gate}": "experts", "shared.{up,gate}": Target("experts", after=True)}


def test_one_by_one() -> None:
    tensors = one_by_one()
    made = group({"{e}.{up,gate}": "experts"}, tensors)
    shape = (EXPERTS, 2 * ROWS, WIDTH)
    assert not list(made.problems("experts", shape, ("F32",)))
    np.testing.assert_array_equal(made.assembly().read(0, EXPERTS), stacked(tensors))


def test_a_shared_expert_follows() -> None:
    tensors = one_by_one()
    shared = {f"shared.{half}": numbers(ROWS, WIDTH, start=-99) for half in ("gate", "up")}
    made = group(SHARED, {**shared, **tensors})
    assert not list(made.problems("experts", (EXPERTS + 1, 2 * ROWS, WIDTH), ("F32",)))
    found = made.assembly().read(0, EXPERTS + 1)
    np.testing.assert_array_equal(found[:EXPERTS], stacked(tensors))
    last = np.concatenate([shared["shared.up"], shared["shared.gate"]])
    np.testing.assert_array_equal(found[EXPERTS], last)


def test_a_shared_expert_follows_packed_ones() -> None:
    packed, shared = numbers(EXPERTS, ROWS, WIDTH), numbers(ROWS, WIDTH, start=-99)
    table: Table = {
        "packed": Target("experts", packed=True),
        "shared": Target("experts", after=True),
    }
    made = group(table, {"shared": shared, "packed": packed})
    assert not list(made.problems("experts", (EXPERTS + 1, ROWS, WIDTH), ("F32",)))
    wanted = np.concatenate([packed, shared[None]])
    np.testing.assert_array_equal(made.assembly().read(0, EXPERTS + 1), wanted)


@pytest.mark.parametrize("shape", [(EXPERTS, ROWS, WIDTH), (EXPERTS, ROWS)])
def test_packed_halves_are_exchanged_in_every_expert(shape: tuple[int, ...]) -> None:
    """Matrices and biases alike; nothing but stretches of the file is needed."""
    packed = numbers(*shape)
    made = group(
        {"packed": Target("experts", packed=True, rows=second_half_first)}, {"packed": packed}
    )
    assert not list(made.problems("experts", shape, ("F32",)))
    wanted = packed[:, [2, 3, 0, 1]]
    np.testing.assert_array_equal(made.assembly().read(0, EXPERTS), wanted)
    pieces = list(made.assembly().pieces("F32"))
    assert len(pieces) == 2 * EXPERTS
    assert all(isinstance(piece, FileRange) for piece in pieces)
    assert made.assembly().chunk_bytes("F32") == 0
    offsets = [piece.offset for piece in pieces if isinstance(piece, FileRange)]
    half = packed[0].nbytes // 2
    assert offsets == [half, 0, 3 * half, 2 * half, 5 * half, 4 * half]


def test_packed_halves_in_two_tensors_alternate() -> None:
    up, gate = numbers(EXPERTS, ROWS, WIDTH), numbers(EXPERTS, ROWS, WIDTH, start=500)
    made = group({"{up,gate}": Target("experts", packed=True)}, {"gate": gate, "up": up})
    assert not list(made.problems("experts", (EXPERTS, 2 * ROWS, WIDTH), ("F32",)))
    wanted = np.concatenate([up, gate], axis=1)
    np.testing.assert_array_equal(made.assembly().read(0, EXPERTS), wanted)


def test_changed_values_pass_one_expert_at_a_time() -> None:
    packed = numbers(EXPERTS, 1024, 4096)
    target = Target("experts", packed=True, values=lambda values: values * 2)
    assembly = group({"packed": target}, {"packed": packed}).assembly()
    pieces = [piece for piece in assembly.pieces("F32") if isinstance(piece, np.ndarray)]
    assert [piece.shape for piece in pieces] == [(1024, 4096)] * EXPERTS
    np.testing.assert_array_equal(np.concatenate(pieces), packed.reshape(-1, 4096) * 2)


PLAIN: Table = {"{e}.{up,gate}": "experts"}
HALF_CHANGED: Table = {
    **PLAIN,
    "shared.{up,gate}": Target("experts", values=lambda values: values * 2, after=True),
}
PACKED: Table = {"{up,gate}": Target("experts", packed=True)}


@pytest.mark.parametrize(
    ("table", "change", "says"),
    [
        (PLAIN, {"1.up": None}, "missing     1.up (for experts)"),
        (PLAIN, {"1.up": None, "1.gate": None}, "missing     1.up (for experts)"),
        (PLAIN, {"2.up": None, "2.gate": None}, "expected [3, 8, 2], found [2, 8, 2] from"),
        (PLAIN, {"1.up": numbers(ROWS, 3)}, "its parts differ in width: "),
        (PLAIN, {"1.up": numbers(5, 2), "1.gate": numbers(5, 2)}, "its experts differ in rows: "),
        (PLAIN, {"1.up": numbers(ROWS, WIDTH).astype(np.int8)}, "1.up: expected F32, found I8"),
        (SHARED, {"shared.up": numbers(ROWS, WIDTH)}, "missing     shared.gate (for experts)"),
        (PLAIN, {"1.up": np.zeros((), np.float32)}, "1.up: expected at least one axis"),
        (HALF_CHANGED, {"shared.up": numbers(ROWS, WIDTH)}, "ambiguous   experts: its rows of the"),
        (
            PACKED,
            {"up": numbers(3, 4, 2), "gate": numbers(2, 4, 2)},
            "as many experts in each, found",
        ),
        (PACKED, {"up": numbers(3), "gate": numbers(3)}, "expected [experts, rows, ...], found"),
        ({**PLAIN, "packed": "experts"}, {"packed": numbers(3)}, "ambiguous   experts: made by"),
    ],
)
def test_what_does_not_fit_is_named(
    table: Table, change: Mapping[str, np.ndarray | None], says: str
) -> None:
    tensors = {} if table is PACKED else dict[str, np.ndarray | None](one_by_one())
    tensors |= change
    kept = {name: values for name, values in tensors.items() if values is not None}
    problems = list(group(table, kept).problems("experts", (3, 8, 2), ("F32",)))
    assert says in "\n".join(problems)


def test_a_missing_expert_refuses_a_checkpoint(tmp_path: Path) -> None:
    name = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
    folder = copy_golden("mixtral", tmp_path / "hf")
    edit_tensors(folder / "model.safetensors", lambda found: (found.pop(name), None)[1])
    with pytest.raises(TensorMismatch) as caught:
        masu.pipeline.convert(folder, tmp_path / "out", verify=False)
    [problem] = caught.value.problems
    assert problem.startswith(f"missing     {name} (for decoder.transformer.layers.1.mlp.experts.")


def test_layers_above_the_last_are_left_out_by_name() -> None:
    """A prediction layer has the tensors of an ordinary one, and others."""
    from masu.converter.config import read_config
    from masu.converter.families import load_family

    family = load_family("glm4_moe")
    config, _ = read_config(family.config, family.tiny, "test")
    names = ["model.layers.2.mlp.gate.weight", "model.layers.3.mlp.gate.weight"]
    names += ["model.layers.3.eh_proj.weight", "model.layers.4.mlp.gate.weight"]
    matches, problems = match(family.weights(config), names)
    assert not problems
    assert [bool(found.name) for found in matches] == [True, False, False, True]


def test_golden_experts_are_those_of_the_checkpoint() -> None:
    """The expert that the file calls 3 stands third: not by the order of the names as text."""
    source = open_golden("mixtral").tensors
    name = "model.layers.0.block_sparse_moe.experts.3.w2.weight"
    table: Table = {"model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight": "{i}.down"}
    matches, _ = match(table, [n for n in source if "layers.0" in n and n.endswith(".w2.weight")])
    made = Group(matches, open_golden("mixtral")).assembly()
    np.testing.assert_array_equal(made.read(3, 4)[0], source[name].read(0, 64))
