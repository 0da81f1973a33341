"""Opens a package for use, whatever kind of model it holds."""

from pathlib import Path

from masu.runtime.backends import load_backend
from masu.runtime.classifier import Classifier
from masu.runtime.encoder import Encoder
from masu.runtime.language_model import LanguageModel
from masu.runtime.network import load_network
from masu.specs.package import Package


def load(
    path: str | Path,
    dtype: str | None = None,
    backend: str | None = None,
    *,
    threads: int | None = None,
    activations: str | None = None,
) -> LanguageModel | Classifier:
    """The model of a package: `LanguageModel` answers, `Classifier` names labels.

    Args:
        dtype: of the activations (`float32`, `bfloat16` ...); None computes as the engine does.
        backend: None takes the best that there is.
        threads: for the native kernels, in this whole process; None leaves them as they are, which
            is at first as many as there are processors.
        activations: `int8` rounds what meets codes of 4 and 8 bits; None rounds nothing.

    Raises:
        PackageError: the package is not there, or breaks its own schema.
        RequestError: it holds neither, or the backend lacks something it needs.
        TextError: its tokenizer or template cannot be used.
    """
    package = Package.open(Path(path))
    chosen = load_backend(backend, threads=threads, activations=activations)
    network = load_network(package, dtype=dtype, backend=chosen)
    if isinstance(network, Encoder):
        return Classifier(network, package)
    return LanguageModel(network, package)
