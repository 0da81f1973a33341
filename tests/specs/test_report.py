"""report.json: written and read back, found where it is broken, absent without a fuss."""

import json
from pathlib import Path

import pytest
from measured_reports import hostile_report
from package_copies import copy_package

from masu.specs.check import check_package
from masu.specs.errors import SchemaError
from masu.specs.output import refuse_occupied
from masu.specs.report import REPORT, Report, read_report


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_bytes(hostile_report().to_bytes())
    assert read_report(tmp_path) == hostile_report()


def test_sizes_may_be_beyond_four_gigabytes() -> None:
    large = hostile_report().model_dump() | {"peak_memory": 5 * 2**30}
    assert Report.model_validate(large).peak_memory == 5 * 2**30


def test_no_report_is_none(tmp_path: Path) -> None:
    assert read_report(tmp_path) is None


@pytest.mark.parametrize(
    ("place", "value"),
    [("mean_kl", -0.1), ("top1_agreement", 1.5), ("perplexity", "8"), ("more", 1)],
)
def test_a_broken_report_is_refused_by_place(tmp_path: Path, place: str, value: object) -> None:
    raw = json.loads(hostile_report().to_bytes())
    raw["fidelity"][place] = value
    folder = copy_package("llama", tmp_path)
    (folder / REPORT).write_text(json.dumps(raw))
    with pytest.raises(SchemaError) as refused:
        read_report(folder)
    assert f"fidelity.{place}" in str(refused.value)
    assert any(each.where == REPORT and place in each.message for each in check_package(folder))


def test_a_figure_that_is_no_number_is_never_written() -> None:
    found = hostile_report()
    with pytest.raises(ValueError, match="seconds"):
        Report.model_validate(found.model_dump() | {"seconds": {"plan": float("nan")}})


def test_a_package_with_a_report_can_be_replaced(tmp_path: Path) -> None:
    folder = copy_package("llama", tmp_path)
    (folder / REPORT).write_bytes(hostile_report().to_bytes())
    refuse_occupied(folder, overwrite=True)
