"""Which module runs an MLP that is made of no others."""

from typing import Any

from masu.runtime.blocks import mlp, ungated_mlp
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig

PLAIN_MLPS: dict[type, Any] = {DenseMLPConfig: mlp, UngatedMLPConfig: ungated_mlp}
