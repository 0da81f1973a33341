"""MLX: Apple's GPU, and on Linux the same code on MLX's CPU device."""

from masu.runtime.backends.mlx.mlx_backend import MLXBackend

BACKEND = MLXBackend
