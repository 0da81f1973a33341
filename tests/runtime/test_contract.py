"""The kernel contract: a gate sees its planted faults and nothing else; kernels are registered."""

import ctypes
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend
from tensor_sources import Random, edited, layers_of

from masu.cli.bench import judge
from masu.runtime.backends import why_not
from masu.runtime.contract import contract, table
from masu.runtime.contract.contract import Judgement
from masu.runtime.contract.gates import GATES
from masu.runtime.contract.memory import GuardedMemory
from masu.runtime.contract.planted import PLANTED
from masu.runtime.contract.registration import unregistered
from masu.runtime.contract.sound import SoundBackend
from masu.runtime.contract.subject import subject_of
from masu.runtime.model import load_model
from masu.specs.package import Package

FAULTS = [
    pytest.param(gate, fault, operation, id=f"{fault.__name__}-{operation}")
    for gate, faults in PLANTED.items()
    for fault, operations in faults.items()
    for operation in operations
]
needs_kernels = pytest.mark.skipif(why_not("native") is not None, reason="no native kernels")


def failed_gates(backend: type[SoundBackend], operation: str) -> list[str]:
    subject, way = contract.planted_subject(backend), contract.planted_way(operation)
    return [gate for gate in GATES if not contract.judged(subject, [way], gate).passed]


@pytest.mark.parametrize(("gate", "fault", "operation"), FAULTS)
def test_a_planted_fault_fails_exactly_its_gate(
    gate: str, fault: type[SoundBackend], operation: str
) -> None:
    assert failed_gates(fault, operation) == [gate]


@pytest.mark.parametrize("operation", ["readout", "linear", "norm", "embed", "rotate"])
def test_without_a_fault_every_gate_is_passed(operation: str) -> None:
    """What the faults are planted in is right: it is they that the gates see."""
    assert failed_gates(SoundBackend, operation) == []


def test_a_gate_that_sees_nothing_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GATES, "tile edges", lambda subject, operation: iter(()))
    blind = [each for each in contract.planted_judgements(["tile edges"]) if not each.passed]
    assert {each.operation for each in blind} == {fault.__name__ for fault in PLANTED["tile edges"]}
    assert ("planted faults", "-", "-", "FAILS", "-", "-", "-") in set(table.rows(blind))


def test_the_table_says_what_failed_and_what_was_not_judged() -> None:
    judgements = [
        Judgement("norm", "non-finite", ("NaN is lost",)),
        Judgement("norm", "repeatable", ()),
        Judgement("norm", "row-invariant", (), applies=False),
    ]
    assert list(table.rows(judgements))[1] == ("norm", "FAILS", "ok", "-", "-", "-", "-")
    assert list(table.problems(judgements)) == ["norm, non-finite: NaN is lost"]


@needs_kernels
def test_every_kernel_has_a_reference_and_shapes() -> None:
    from masu.runtime.backends.native.kernels import KERNELS

    assert list(unregistered(KERNELS)) == []


@needs_kernels
def test_a_kernel_without_reference_or_shapes_is_named() -> None:
    from masu.runtime.backends.native.kernels import KERNELS

    sound = KERNELS[0]
    for changed, message in [
        (replace(sound, operations=()), "no operation"),
        (replace(sound, operations=("unheard",)), "unheard has no reference"),
        (replace(sound, operations=("scan",)), "scan has no shapes"),
        (replace(sound, serves=""), "nothing of serves"),
        (replace(sound, non_finite=""), "nothing of non_finite"),
    ]:
        problems = list(unregistered([changed]))
        assert any(message in problem for problem in problems), problems


@needs_kernels
@pytest.mark.parametrize("operation", ["readout", "norm"])
def test_native_kernels_pass(operation: str) -> None:
    """The plainest way; all ways of all operations are judged in the slow tests."""
    with subject_of(shared_backend("native")) as subject:
        for gate in GATES:
            judgement = contract.judged(subject, [contract.planted_way(operation)], gate)
            assert judgement.applies
            assert not judgement.problems


@needs_kernels
def test_a_kernel_that_writes_past_its_output_is_seen() -> None:
    """Called as XLA calls it, a kernel of the test's own: one number too many."""
    from masu.runtime.backends.native.guarded import Frame, call_kernel

    for too_many in (0, 1):

        def kernel(address: int, extra: int = too_many) -> None:
            frame = Frame.from_address(address)
            output = frame.rets.buffer(0)
            count = int(np.prod(output.shape)) + extra
            room = (ctypes.c_float * count).from_address(output.data)
            room[:] = [2.0] * count

        memory = GuardedMemory()
        out = memory.empty("the output", (3, 5), np.dtype(np.float32))
        call_kernel(kernel, [np.zeros(2, np.float32)], [out], {})
        assert (out == 2).all()
        assert memory.broken() == ["the output"] * too_many


CHUNKED = ["gemma3-text", "gpt_oss", "qwen3_next", "lfm2", "llamba", "gemma4-text"]


@needs_kernels
@pytest.mark.parametrize("case", CHUNKED)
def test_a_prompt_in_pieces_of_any_size_leaves_the_same_bits(case: str) -> None:
    """In caches, windows, convolutions and recurrent states; and the same logits after it."""
    package = Package.open(GOLDEN / case / "engine")
    model = load_model(package, backend=shared_backend("native"))
    ids, length = np.random.default_rng(3).integers(0, 30, 20), 20
    found = []
    for sizes in ([20], [1] * 20, [13, 1, 6]):
        state, logits = model.start(24), np.empty(0)
        for part in np.split(ids, np.cumsum(sizes)[:-1]):
            logits, state = model.last_logits(state, part)
        found.append((logits.tobytes(), *(leaf.tobytes() for leaf in leaves(state.layers, length))))
    assert found[0] == found[1] == found[2]


@needs_kernels
def test_the_long_steps_of_a_prompt_leave_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(decoder: dict) -> None:
        for each in layers_of(decoder):
            each["rope_config"]["max_sequence_length"] = 512

    config = edited(Package.open(GOLDEN / "llama-tied/engine").config, longer)
    backend = shared_backend("native")
    found = []
    for longest in (0, 128):
        monkeypatch.setattr(type(backend), "longest_step", longest)
        model = load_model(Random(config), dtype="bfloat16", backend=backend)
        logits, state = model.last_logits(model.start(400), np.arange(300) % 30)
        found.append((logits.tobytes(), *(leaf.tobytes() for leaf in leaves(state.layers, 300))))
    assert found[0] == found[1]


def leaves(node: Any, length: int) -> list[np.ndarray]:
    """Every array of a state; of a cache `[groups, capacity, width]` what was written."""
    if node is None:
        return []
    if isinstance(node, tuple | list):
        return [leaf for part in node for leaf in leaves(part, length)]
    array = np.asarray(node)
    is_cache = array.ndim == 3 and array.shape[1] >= 32 and array.shape[1] % 32 == 0
    return [array[:, :length] if is_cache else array]


@pytest.mark.slow
@needs_kernels
def test_every_native_operation_passes_in_its_plainest_way() -> None:
    with subject_of(shared_backend("native")) as subject:
        for operation in contract.operation_names():
            for gate in GATES:
                judgement = contract.judged(subject, [contract.planted_way(operation)], gate)
                assert not judgement.problems, (operation, gate)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["native", "jax"])
def test_bench_contract_judges_every_way_of_every_operation(name: str) -> None:
    shared_backend(name)
    command = [sys.executable, "-m", "masu", "bench", "--contract", "--backend", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"backend {name}"
    assert {line.split()[0] for line in lines[3:]} == set(contract.operation_names())
    assert all("FAILS" not in line for line in lines)


def test_bench_contract_prints_the_table_and_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backend with a fault, and one operation of it, to be quick."""
    monkeypatch.setattr(contract, "OPERATIONS", (contract.planted_way("rotate"),))
    monkeypatch.setattr(contract, "planted_judgements", lambda: iter(()))
    assert not judge(HalfTurned())
    told = capsys.readouterr()
    assert told.out.splitlines()[2].split()[:4] == ["rotate", "ok", "ok", "FAILS"]
    assert "rotate, tile edges: float32, (1, 1, 2, 1)" in told.err


class HalfTurned(SoundBackend):
    """Sines are half as large as they should be."""

    def rotate(self, x: Any, cosines: Any, sines: Any) -> Any:
        return super().rotate(x, cosines, sines * np.float32(0.5))


def test_bench_takes_a_package_or_the_contract() -> None:
    for arguments in ([], ["--contract", str(GOLDEN / "llama" / "engine")]):
        command = [sys.executable, "-m", "masu", "bench", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "either a package or --contract" in done.stderr
    command = [sys.executable, "-m", "masu", "bench", "--contract", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--contract has no use for --rounds" in done.stderr
