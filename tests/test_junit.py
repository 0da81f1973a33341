"""JUnit reports: well-formed whatever the text, a failure for each check that found something."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from golden import GOLDEN
from package_copies import copy_package

import masu
from masu.reports.findings import cases_of
from masu.reports.junit import TestCase, junit_xml, write_junit
from masu.specs.errors import OutputError
from masu.specs.finding import Finding


def suite_of(xml: bytes) -> ElementTree.Element:
    suite = ElementTree.fromstring(xml).find("testsuite")
    assert suite is not None
    return suite


def test_counts_and_texts() -> None:
    cases = [
        TestCase("good", remarks=["by the way"], seconds=1.5),
        TestCase("bad", failures=["first <&>", "second"]),
        TestCase("not made", skipped="no time"),
    ]
    suite = suite_of(junit_xml("suite", cases))
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "suite", "tests": "3", "failures": "1", "errors": "0", "skipped": "1",
    }  # fmt: skip
    good, bad, skipped = suite
    assert (good.get("time"), good.findtext("system-out")) == ("1.500", "by the way")
    failure = bad.find("failure")
    assert failure is not None
    assert failure.get("message") == "first <&> (and 1 more)"
    assert failure.text == "first <&>\nsecond"
    assert skipped.find("skipped") is not None


@pytest.mark.parametrize("text", ["\x00\x1b[31m", "\ud800", "\ufffe", "日本 😀"])
def test_any_text_is_well_formed(text: str) -> None:
    suite = suite_of(junit_xml("s", [TestCase(f"a{text}", failures=[text])]))
    assert suite[0].get("name", "").startswith("a")


def test_checks_that_could_not_be_made_have_not_passed(tmp_path: Path) -> None:
    package = copy_package("llama", tmp_path)
    (package / "model.safetensors").write_bytes(b"")
    suite = suite_of(junit_xml("s", cases_of(masu.check(package), None)))
    by_name = {case.get("name"): [child.tag for child in case] for case in suite}
    assert by_name["container"] == ["failure"]
    assert by_name["tensors"] == ["skipped"]
    assert by_name["integrity"] == ["skipped"]
    assert by_name["template"] == []
    assert "engine" not in by_name


def test_what_an_engine_computes_otherwise_does_not_fail() -> None:
    findings = masu.check(GOLDEN / "gemma2/engine", engine="uzu-0.6")
    milder = [finding for finding in findings if not finding.is_problem]
    [case] = [case for case in cases_of(milder, "uzu-0.6") if case.name == "engine"]
    assert not case.failures
    assert any("[no-attention-soft-cap]" in remark for remark in case.remarks)


def test_every_kind_of_problem_fails_a_case() -> None:
    for kind in ("schema", "container", "tensors", "engine", "integrity", "tokenizer", "template"):
        found = Finding(kind, "file", "message")
        assert [case.name for case in cases_of([found], None) if case.failures] == [kind]


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        write_junit(tmp_path / "missing/report.xml", "s", [])
