"""JUnit XML: what CI systems show of checks, one test case for each thing that was checked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from masu.specs.errors import OutputError

# XML 1.0 has no place for these, not even escaped.
_UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class TestCase:
    """One thing that was checked.

    Attributes:
        failures: what is wrong, one line each; none: it passed.
        remarks: what is said of it without failing it.
        seconds: how long it took, if that was measured.
        skipped: why it was not checked.
    """

    __test__ = False  # pytest: not a class of tests

    name: str
    failures: Sequence[str] = ()
    remarks: Sequence[str] = ()
    seconds: float | None = None
    skipped: str | None = None


def junit_xml(suite: str, cases: Sequence[TestCase]) -> bytes:
    """One `testsuite` with a `testcase` for each; the same input gives the same bytes.

    The form is that of JUnit's Ant task, which CI systems agree on: a case has at most one
    `failure`, whose text lists all that is wrong.
    """
    root = ElementTree.Element("testsuites")
    counts = {
        "name": _text(suite),
        "tests": str(len(cases)),
        "failures": str(sum(bool(case.failures) for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.skipped is not None for case in cases)),
    }
    element = ElementTree.SubElement(root, "testsuite", counts)
    for case in cases:
        _add(element, suite, case)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def write_junit(path: Path, suite: str, cases: Sequence[TestCase]) -> None:
    """Write the report to `path`; OutputError where that cannot be."""
    try:
        path.write_bytes(junit_xml(suite, cases))
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def _add(suite_element: ElementTree.Element, suite: str, case: TestCase) -> None:
    attributes = {"classname": _text(suite), "name": _text(case.name)}
    if case.seconds is not None:
        attributes["time"] = f"{case.seconds:.3f}"
    element = ElementTree.SubElement(suite_element, "testcase", attributes)
    if case.skipped is not None:
        ElementTree.SubElement(element, "skipped", {"message": _text(case.skipped)})
    if case.failures:
        first, *others = case.failures
        message = first if not others else f"{first} (and {len(others)} more)"
        failure = ElementTree.SubElement(element, "failure", {"message": _text(message)})
        failure.text = _text("\n".join(case.failures))
    if case.remarks:
        ElementTree.SubElement(element, "system-out").text = _text("\n".join(case.remarks))


def _text(value: str) -> str:
    return _UNSPEAKABLE.sub("\ufffd", value)
