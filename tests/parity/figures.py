"""Renews docs/parity.json: how near each family comes to transformers.

`python tests/parity/figures.py` measures all of them, which takes some minutes; with names, only
these. The cases are those of `test_parity.py`, which bounds them.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parent.parent
sys.path.append(str(TESTS))

from test_parity import CASES, FAMILIES, distance, package  # noqa: E402

PARITY = TESTS.parent / "docs/parity.json"


def measured(families: list[str]) -> dict[str, float]:
    """For each family the largest difference of a logit over its cases, to two digits."""
    found: dict[str, float] = defaultdict(float)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for case in (case for case in CASES if case.family in families):
            figure = float(f"{distance(package(case, folder), case, folder, 'jax'):.1e}")
            found[case.family] = max(found[case.family], figure)
            print(f"{case}: {figure}")
    return found


if __name__ == "__main__":
    known = json.loads(PARITY.read_text())
    figures = {**known, **measured(sys.argv[1:] or FAMILIES)}
    kept = {name: figures[name] for name in sorted(figures) if name in FAMILIES}
    PARITY.write_text(json.dumps(kept, indent=2) + "\n")
