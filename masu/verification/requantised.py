"""The plan of a package that was quantised from another one, not on the way from its source."""

from dataclasses import replace

import numpy as np

from masu.converter.convert import ConversionPlan
from masu.planning import Plan
from masu.quantizers.plan import Quantisation, plan_quantisation
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import FullPrecisionSpec
from masu.specs.stream import PlannedTensor


def by_way_of_a_package(planned: Plan) -> ConversionPlan | None:
    """The same recipe over values that were rounded to the package's type first.

    `masu quantize` reads a package, in which they are; `masu convert` reads the source. None where
    nothing is quantised.
    """
    quantisation = planned.quantisation
    if quantisation is None:
        return None
    made = _made(planned, quantisation)
    return replace(planned.conversion, config=made.config, stream=made.stream)


def _made(planned: Plan, quantisation: Quantisation) -> Quantisation:
    return plan_quantisation(
        quantisation.recipe.model_copy(update={"untie": False}),  # the originals are untied
        quantisation.config,
        [_rounded(tensor) for tensor in quantisation.originals],
        planned.conversion.dtype,
        planned.engine.dialect.planes,
    )


def _rounded(tensor: PlannedTensor) -> PlannedTensor:
    """A matrix in full precision as the package has it; all else as it is."""
    if not isinstance(tensor.format, FullPrecisionSpec):
        return tensor
    dtype = NUMPY_DTYPES[next(iter(tensor.arrays.values())).dtype]

    def read(start: int, stop: int) -> np.ndarray:
        return tensor.read(start, stop).astype(dtype).astype(np.float32)

    return replace(tensor, read=read)
