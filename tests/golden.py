"""Where the golden data lie: tiny checkpoints, packages written by lalamo 0.17.0, logits."""

import json
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
CASES: dict[str, dict] = json.loads((GOLDEN / "index.json").read_text())["cases"]
ENGINE_CASES = sorted(name for name in CASES if (GOLDEN / name / "engine").is_dir())
