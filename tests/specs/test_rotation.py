"""Hybrids rotate with the reference's signs, undo it exactly, and adapters hold what is left."""

from hashlib import sha256

import jax
import numpy as np
import pytest
from encoder_bounds import encoded, ramp, spec_of, turned
from format_cases import FULL, INTEGER, LOW_RANK, MLX, golden_matrices

from masu.specs.formats import HybridSpec
from masu.specs.formats.incoherence import SIDES, signs

MODES = ("input", "output", "input_output")
BLOCKS = (32, 64, 128)


def hybrid(
    core: dict, mode: str, block: int | None = 32, adapter: dict | None = None
) -> HybridSpec:
    spec = spec_of(
        {
            "type": "HybridSpec",
            "quantization_spec": core,
            "adapter_spec": adapter,
            "incoherence_block_size": block,
            "incoherence_processing_mode": mode,
        }
    )
    assert isinstance(spec, HybridSpec)
    return spec


@pytest.mark.parametrize(
    ("channels", "input_hash", "output_hash"),
    [
        (1024, "46bf24439a39eb98", "f0a2a8e1931c3010"),
        (2560, "dfed07d8ee0935a5", "f25945b18eb25544"),
    ],
)
def test_signs_are_those_of_lalamo(channels: int, input_hash: str, output_hash: str) -> None:
    """Digests of the little-endian int32 vectors that lalamo 0.17.0 draws."""
    for side, wanted in zip(SIDES, (input_hash, output_hash), strict=True):
        vector = signs(side, channels)
        assert vector.dtype == np.int32
        assert sha256(vector.tobytes()).hexdigest()[:16] == wanted


def test_signs_are_those_of_jax() -> None:
    keys = jax.random.split(jax.random.key(42))
    for side, key in zip(SIDES, keys, strict=True):
        drawn = np.where(jax.random.bernoulli(key, 0.5, (100,)), 1, -1)
        np.testing.assert_array_equal(signs(side, 100), drawn)


def test_golden_packages_have_these_signs() -> None:
    seen = 0
    for case in ("llama-rht-int4", "llama-rht-all", "llama-tied-rht-embedding"):
        for matrix in golden_matrices(case):
            for side in SIDES:
                stored = matrix.arrays.get(f"incoherence_signs.{side}_signs")
                if stored is not None:
                    np.testing.assert_array_equal(stored, signs(side, len(stored)))
                    seen += 1
    assert seen >= 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("block", BLOCKS)
def test_rotation_without_quantisation_changes_nothing(mode: str, block: int) -> None:
    """Within float32: a few roundings of the largest value of the block."""
    for core in FULL:
        for shape in ((128, 256), (2, 128, 128)):
            values = ramp(shape)
            matrix = encoded(hybrid(core, mode, block), values)
            assert np.abs(matrix.arrays["quantized.weights"] - values).max() > 0.1
            for decoded in (matrix.reference, matrix.decoded(np.float32)):
                assert np.abs(decoded - values).max() <= np.abs(values).max() * 2.0**-20


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", [0, 1])
def test_the_core_is_the_rotated_matrix(mode: str, layout: int) -> None:
    """`H D_out W D_in H` by whole matrices, and exact where float64 rotates."""
    spec = hybrid(FULL[layout], mode)
    values = ramp((64, 96)).astype(np.float64)
    wanted = turned(spec, values)
    assert np.abs(spec.rotated(values) - wanted).max() < 1e-13 * np.abs(wanted).max()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("core", MLX[2:4], ids=["output_input", "input_output"])
def test_an_adapter_takes_the_largest_part_of_what_the_core_misses(mode: str, core: dict) -> None:
    """Exactly as much as the singular values of the residual say (rotations keep them)."""
    values = ramp((64, 96))
    adapted = encoded(hybrid(core, mode, adapter=LOW_RANK), values)
    alone = encoded(hybrid(core, mode), values)
    residual = values - alone.reference
    singular = np.linalg.svd(residual, compute_uv=False)
    left = np.sqrt(np.square(singular[LOW_RANK["rank"] :]).sum())
    found = np.sqrt(np.square(values - adapted.reference).sum())
    assert abs(found - left) < 1e-4 * left
    for suffix, array in alone.arrays.items():  # the core knows nothing of the adapter
        np.testing.assert_array_equal(adapted.arrays[suffix], array)


def test_experts_share_their_signs() -> None:
    values = ramp((3, 64, 64))
    arrays = hybrid(INTEGER[2], "input_output").encode(values, "BF16", "group_major")
    for side in SIDES:
        stored = arrays[f"incoherence_signs.{side}_signs"]
        assert stored.shape == (3, 64)
        assert (stored == signs(side, 64)).all()


def test_low_rank_is_the_nearest_product() -> None:
    values = ramp((6, 64))
    spec = spec_of(LOW_RANK)
    singular = np.linalg.svd(values.astype(np.float64), compute_uv=False)
    error = np.sqrt(np.square(encoded(spec, values).reference - values).sum())
    left = np.sqrt(np.square(singular[3:]).sum())
    assert abs(error - left) < 1e-5 * singular[0]
    arrays = spec.encode(values, "F32", "group_major")
    norms = [np.sqrt(np.square(arrays[name]).sum()) for name in arrays]
    assert abs(norms[0] - norms[1]) < 1e-5 * norms[0]  # both factors carry the same share
    largest = np.abs(arrays["down_projection"]).argmax(-1)
    assert (arrays["down_projection"][np.arange(3), largest] > 0).all()
