"""A verdict as test cases: one, that of its level."""

from collections.abc import Sequence

from masu.reports.junit import TestCase
from masu.verdict import Verdict


def cases_of(verdict: Verdict) -> Sequence[TestCase]:
    said = verdict.describe()
    if verdict.passed:
        return [TestCase(verdict.level, remarks=(said, *verdict.told))]
    return [TestCase(verdict.level, failures=(said,), remarks=verdict.told)]
