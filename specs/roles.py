"""What a weight matrix does in a model, told from its engine name."""

from collections.abc import Iterable
from typing import Literal, get_args

Role = Literal[
    "embedding", "readout", "attention", "recurrent", "mlp", "experts", "router", "other"
]
"""`embedding`: a table that is looked up (a tied one is also read out); `readout`: a table that is
only read out; `attention` and `recurrent`: projections of a token mixer; `other`: what stands
beside the layers' mixers and MLPs (per-layer inputs, prediction heads)."""

ROLES: tuple[Role, ...] = get_args(Role)

_TABLES = ("embedding", "input_embedding", "token_embedding")


def roles(names: Iterable[str]) -> dict[str, Role]:
    """The role of each matrix of one model, by its canonical engine name."""
    names = list(names)
    attending = {_folder(name) for name in names if name.endswith(".qkvg_projection.weights")}
    return {name: _role(name, attending) for name in names}


def _role(name: str, attending: set[str]) -> Role:
    steps = name.split(".")
    if steps[-1] in _TABLES:
        return "embedding"
    if steps[-1] == "output_embedding":
        return "readout"
    if "experts" in steps:
        return "experts"
    if "mlp" in steps:
        return "router" if steps[-2] in ("router", "gate") else "mlp"
    if "mixer" in steps:
        return "attention" if _folder(name) in attending else "recurrent"
    return "other"


def _folder(name: str) -> str:
    """The block that a projection belongs to: `X.mixer` of `X.mixer.out_projection.weights`."""
    return name.rsplit(".", 2)[0]
