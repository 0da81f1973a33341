"""What a run of the contract found, as lines of text."""

from collections.abc import Iterable, Iterator

from masu.runtime.contract.contract import Judgement
from masu.runtime.contract.gates import GATES

Row = tuple[str, ...]


def rows(judgements: Iterable[Judgement]) -> Iterator[Row]:
    """A line for each operation, and one for the planted faults, with a column for each gate.

    `ok`, `FAILS`, or `-` where there is nothing to be judged.
    """
    cells: dict[str, dict[str, list[Judgement]]] = {}
    for each in judgements:
        line = "planted faults" if each.is_planted else each.operation
        cells.setdefault(line, {}).setdefault(each.gate, []).append(each)
    yield ("", *GATES)
    for line, by_gate in cells.items():
        yield (line, *(_cell(by_gate.get(gate, [])) for gate in GATES))


def _cell(found: list[Judgement]) -> str:
    if not any(each.applies for each in found):
        return "-"
    return "ok" if all(each.passed for each in found) else "FAILS"


def problems(judgements: Iterable[Judgement]) -> Iterator[str]:
    for each in judgements:
        for problem in each.problems:
            yield f"{each.operation}, {each.gate}: {problem}"
