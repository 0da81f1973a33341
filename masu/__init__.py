"""masu: Hugging Face checkpoints in, on-device engine packages out, and a runtime to prove them.

The public names below are imported when they are first used, so `import masu` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masu.comparison.entries import Difference
    from masu.comparison.packages import diff
    from masu.contents import Overview, overview
    from masu.converter.family import Family
    from masu.events import Event
    from masu.inventory import Capabilities, capabilities
    from masu.measurement import Measurement, bench
    from masu.migration import Migration, migrate
    from masu.pipeline import Conversion, convert
    from masu.planning import Plan, plan
    from masu.pulling import Pulled, pull
    from masu.pushing import Pushed, push
    from masu.quantisation import Quantised, quantize
    from masu.runtime.classifier import Classifier
    from masu.runtime.language_model import LanguageModel
    from masu.runtime.package_model import load
    from masu.runtime.sampling import Sampling
    from masu.signing import sign
    from masu.soundness import check
    from masu.specs.errors import MasuError
    from masu.specs.finding import Finding
    from masu.specs.models import ModelSpec, named_models
    from masu.specs.package import Package
    from masu.specs.recipe import Recipe, named_recipes
    from masu.verdict import Verdict
    from masu.verification.verify import verify

    __version__: str

__all__ = [
    "Capabilities",
    "Classifier",
    "Conversion",
    "Difference",
    "Event",
    "Family",
    "Finding",
    "LanguageModel",
    "MasuError",
    "Measurement",
    "Migration",
    "ModelSpec",
    "Overview",
    "Package",
    "Plan",
    "Pulled",
    "Pushed",
    "Quantised",
    "Recipe",
    "Sampling",
    "Verdict",
    "__version__",
    "bench",
    "capabilities",
    "check",
    "convert",
    "diff",
    "load",
    "migrate",
    "named_models",
    "named_recipes",
    "overview",
    "plan",
    "pull",
    "push",
    "quantize",
    "sign",
    "verify",
]

_HOMES = {
    "Capabilities": "masu.inventory",
    "Classifier": "masu.runtime.classifier",
    "Conversion": "masu.pipeline",
    "Difference": "masu.comparison.entries",
    "Event": "masu.events",
    "Family": "masu.converter.family",
    "Finding": "masu.specs.finding",
    "LanguageModel": "masu.runtime.language_model",
    "MasuError": "masu.specs.errors",
    "Measurement": "masu.measurement",
    "Migration": "masu.migration",
    "ModelSpec": "masu.specs.models",
    "Overview": "masu.contents",
    "Package": "masu.specs.package",
    "Plan": "masu.planning",
    "Pulled": "masu.pulling",
    "Pushed": "masu.pushing",
    "Quantised": "masu.quantisation",
    "Recipe": "masu.specs.recipe",
    "Sampling": "masu.runtime.sampling",
    "Verdict": "masu.verdict",
    "bench": "masu.measurement",
    "capabilities": "masu.inventory",
    "check": "masu.soundness",
    "convert": "masu.pipeline",
    "diff": "masu.comparison.packages",
    "load": "masu.runtime.package_model",
    "migrate": "masu.migration",
    "named_models": "masu.specs.models",
    "named_recipes": "masu.specs.recipe",
    "overview": "masu.contents",
    "plan": "masu.planning",
    "pull": "masu.pulling",
    "push": "masu.pushing",
    "quantize": "masu.quantisation",
    "sign": "masu.signing",
    "verify": "masu.verification.verify",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("masu")
    if name not in _HOMES:
        raise AttributeError(f"module 'masu' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
