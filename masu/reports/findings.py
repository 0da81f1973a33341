"""The findings of a check as test cases: one for each kind of check, failed or passed."""

from collections.abc import Sequence

from masu.reports.junit import TestCase
from masu.specs.finding import Finding, Kind
from masu.specs.manifest import MANIFEST

CHECKS: tuple[Kind, ...] = (
    "schema", "container", "tensors", "engine", "integrity", "signature", "tokenizer",
    "template",
)  # fmt: skip
"""The kinds of check; what an engine computes otherwise is a remark on its own kind."""

NEEDS: dict[Kind, tuple[Kind, ...]] = {
    "tensors": ("schema", "container"),
    "engine": ("schema", "container", "tensors"),
    "tokenizer": ("schema",),
    "template": ("schema",),
}
"""What has to hold for a check to be made at all."""

OF_KIND: dict[Kind, Kind | None] = {"differs": "engine", "note": None}


def cases_of(
    findings: Sequence[Finding], engine: str | None, *, signed: bool = False
) -> list[TestCase]:
    """A case for each kind of check; `engine` and `signature` only if asked for or at fault.

    Notes, which belong to no kind, are remarks of a case of their own that always passes.
    """
    cases = [_case(kind, findings) for kind in CHECKS]
    unasked = {"engine": engine is None, "signature": not signed}
    cases = [case for case in cases if not unasked.get(case.name) or case.failures]
    notes = [_line(finding) for finding in findings if finding.kind == "note"]
    return [*cases, TestCase("notes", remarks=notes)] if notes else cases


def _case(kind: Kind, findings: Sequence[Finding]) -> TestCase:
    failed = {finding.kind for finding in findings if finding.is_problem}
    broken = [needed for needed in NEEDS.get(kind, ()) if needed in failed]
    if broken and kind not in failed:
        return TestCase(kind, skipped=f"not checked: {' and '.join(broken)} failed")
    if kind == "integrity" and any(f.kind == "note" and f.where == MANIFEST for f in findings):
        return TestCase(kind, skipped="not checked: there is no manifest")
    own = [finding for finding in findings if OF_KIND.get(finding.kind, finding.kind) == kind]
    return TestCase(
        kind,
        failures=[_line(finding) for finding in own if finding.is_problem],
        remarks=[_line(finding) for finding in own if not finding.is_problem],
    )


def _line(finding: Finding) -> str:
    rule = "" if finding.rule is None else f" [{finding.rule}]"
    return f"{finding.where}: {finding.message}{rule}"
