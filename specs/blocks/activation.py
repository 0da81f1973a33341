"""Activation functions."""

from typing import Annotated, Literal

from pydantic import Discriminator

from masu.specs.strict import Strict


class SiLU(Strict):
    """`x * sigmoid(alpha * x)`."""

    type: Literal["SiLU"]
    alpha: float


class GELU(Strict):
    """Gaussian error linear unit; `approximate` selects the tanh form."""

    type: Literal["GELU"]
    approximate: bool


class Identity(Strict):
    type: Literal["Identity"]


class SquaredReLU(Strict):
    """`max(x, 0) ** 2` (arXiv:2109.08668)."""

    type: Literal["SquaredReLU"]


Activation = Annotated[SiLU | GELU | Identity | SquaredReLU, Discriminator("type")]
