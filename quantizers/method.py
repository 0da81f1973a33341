"""What a quantisation method supplies: values in, the stored arrays of a format out."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.grouped import GroupedFormat
from masu.specs.formats.hybrid import HybridSpec, under


class Method:
    """One way of choosing codes; a module of `methods/` holds one instance, `METHOD`.

    Attributes:
        name: as recipes give it.
        calibrated: whether it looks at activations, so that a model has to run first.
        rows_apart: whether each row of a matrix is encoded by itself, so that a matrix never has
            to be in memory as a whole (if its format allows that).
        two_sided: of a calibrated one, whether it also wants to know what outputs are worth.
        takes_narrow: whether it wants bfloat16 and float16 as they are, not as float32.
    """

    name: ClassVar[str]
    calibrated: ClassVar[bool] = False
    two_sided: ClassVar[bool] = False
    rows_apart: ClassVar[bool] = True
    takes_narrow: ClassVar[bool] = False

    def problem(self, weight_format: Format) -> str | None:
        """Why it cannot write this format."""
        return None

    def encode(
        self, weight_format: Format, values: np.ndarray, dtype: str, planes: Planes
    ) -> Mapping[str, np.ndarray]:
        """The stored arrays of a matrix `[..., rows, columns]` (float32), by suffix.

        Of a rotated format the method chooses the core's codes.

        Args:
            dtype: element type of the format's own parameters, by its name in the file.
        """
        if not isinstance(weight_format, HybridSpec):
            return self.encode_plain(weight_format, values, dtype, planes)
        rotated = weight_format.rotated(values)
        core = self.encode_plain(weight_format.quantization_spec, rotated, dtype, planes)
        return weight_format.completed(under("quantized", core), rotated, dtype, planes)

    def encode_plain(
        self, weight_format: Format, values: np.ndarray, dtype: str, planes: Planes
    ) -> Mapping[str, np.ndarray]:
        """As `encode`, for a format without rotations."""
        raise NotImplementedError

    def needs_groups(self, weight_format: Format) -> str | None:
        """The problem of a method that chooses the parameters of groups itself."""
        core = self.core(weight_format)
        if isinstance(core, GroupedFormat):
            return None
        return f"{type(core).__name__} has no groups whose parameters could be chosen"

    def core(self, weight_format: Format) -> Format:
        """The format whose codes the method chooses: that inside a rotation."""
        return (
            weight_format.quantization_spec
            if isinstance(weight_format, HybridSpec)
            else weight_format
        )


class CalibratedMethod(Method):
    """A method that looks at the inputs of a product; it writes matrices `[out, in]`."""

    calibrated = True
    rows_apart = False

    def encode_calibrated(
        self,
        weight_format: Format,
        values: np.ndarray,
        moments: np.ndarray,
        dtype: str,
        planes: Planes,
        outputs: np.ndarray | None = None,
    ) -> Mapping[str, np.ndarray]:
        """The stored arrays of a matrix float32 `[out, in]`.

        Args:
            moments: mean of `x x^T` over the inputs, float32 `[in, in]`.
            outputs: mean of `g g^T` over the gradients of the outputs, float32 `[out, out]`; for a
                two-sided method, whose moments count each input by the square of its `g`.
        """
        raise NotImplementedError
