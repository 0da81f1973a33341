"""masu: Hugging Face checkpoints in, on-device engine packages out, and a runtime to prove them.

The public names below are imported when they are first used, so `import masu` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masu.contents import Overview, overview
    from masu.converter.family import Family
    from masu.events import Event
    from masu.measurement import Measurement, bench
    from masu.pipeline import Conversion, Plan, convert, plan
    from masu.runtime.classifier import Classifier
    from masu.runtime.language_model import LanguageModel
    from masu.runtime.package_model import load
    from masu.runtime.sampling import Sampling
    from masu.soundness import check
    from masu.specs.errors import MasuError
    from masu.specs.finding import Finding
    from masu.specs.models import ModelSpec, named_models
    from masu.specs.package import Package
    from masu.verdict import Verdict

    __version__: str

__all__ = [
    "Classifier",
    "Conversion",
    "Event",
    "Family",
    "Finding",
    "LanguageModel",
    "MasuError",
    "Measurement",
    "ModelSpec",
    "Overview",
    "Package",
    "Plan",
    "Sampling",
    "Verdict",
    "__version__",
    "bench",
    "check",
    "convert",
    "load",
    "named_models",
    "overview",
    "plan",
]

_HOMES = {
    "Classifier": "masu.runtime.classifier",
    "Conversion": "masu.pipeline",
    "Event": "masu.events",
    "Family": "masu.converter.family",
    "Finding": "masu.specs.finding",
    "LanguageModel": "masu.runtime.language_model",
    "MasuError": "masu.specs.errors",
    "Measurement": "masu.measurement",
    "ModelSpec": "masu.specs.models",
    "Overview": "masu.contents",
    "Package": "masu.specs.package",
    "Plan": "masu.pipeline",
    "Sampling": "masu.runtime.sampling",
    "Verdict": "masu.verdict",
    "bench": "masu.measurement",
    "check": "masu.soundness",
    "convert": "masu.pipeline",
    "load": "masu.runtime.package_model",
    "named_models": "masu.specs.models",
    "overview": "masu.contents",
    "plan": "masu.pipeline",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("masu")
    if name not in _HOMES:
        raise AttributeError(f"module 'masu' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
