"""Which module runs which block. Adding a block: a module here, and its line below.

A mixer's state is what it keeps of the tokens so far: a tuple of arrays, or None.
"""

from typing import Any, Protocol

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import attention, mlp
from masu.runtime.blocks.context import Context
from masu.runtime.loader import Loader
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.mlp import DenseMLPConfig


class Mixer(Protocol):
    """A module that runs one kind of token mixer."""

    def load(self, config: Any, loader: Loader, width: int) -> Any:
        """The parameters, asked for by name and shape."""
        ...

    def start(self, backend: Backend, config: Any, capacity: int, dtype: np.dtype) -> Any:
        """The state before the first token, with room for `capacity` tokens."""
        ...

    def grow(self, backend: Backend, state: Any, capacity: int) -> Any:
        """The same state with room for more."""
        ...

    def apply(
        self,
        backend: Backend,
        config: Any,
        parameters: Any,
        x: Array,
        state: Any,
        context: Context,
    ) -> tuple[Array, Any]:
        """`[tokens, width]` -> the same, and the state after them. The old state is given up."""
        ...


class MLP(Protocol):
    """A module that runs one kind of MLP."""

    def load(self, config: Any, loader: Loader, width: int, hidden: int) -> Any:
        """The parameters, asked for by name and shape."""
        ...

    def apply(self, backend: Backend, config: Any, parameters: Any, x: Array) -> Array:
        """`[tokens, width]` -> the same."""
        ...


MIXERS: dict[type, Mixer] = {
    AttentionConfig: attention,
}

MLPS: dict[type, MLP] = {
    DenseMLPConfig: mlp,
}
