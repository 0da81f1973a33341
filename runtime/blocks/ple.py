"""Per-layer embeddings: what every layer is told about each token, and how it takes that in.

The values of a model and those of a layer are two blocks, loaded and run in different places.
"""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, norm
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.loader import Loader
from masu.runtime.weights import Weight
from masu.specs.blocks.ple import PLELayerConfig, PLEModelConfig


class PLEModelParameters(NamedTuple):
    """A row of `token_embedding`, and one of `model_projection`, is `[layers * ple_dim]`."""

    token_embedding: Weight
    model_projection: Linear
    projection_norm: NormParameters


class PLELayerParameters(NamedTuple):
    """`gate` `[ple_dim, width]`, `projection` `[width, ple_dim]`."""

    gate: Linear
    projection: Linear
    norm: NormParameters


def load_model(config: PLEModelConfig, loader: Loader, width: int) -> PLEModelParameters:
    columns = config.num_layers * config.ple_dim
    rows = config.ple_vocab_size
    projection = loader.under("model_projection")
    return PLEModelParameters(
        loader.matrix("token_embedding", rows, columns, "input_output"),
        linear.load(projection, columns, width, has_biases=False),
        norm.load(config.norm_config, loader.under("projection_norm"), config.ple_dim),
    )


def load_layer(config: PLELayerConfig, loader: Loader, width: int) -> PLELayerParameters:
    return PLELayerParameters(
        linear.load(loader.under("gate"), config.ple_dim, width, has_biases=False),
        linear.load(loader.under("projection"), width, config.ple_dim, has_biases=False),
        norm.load(config.norm_config, loader.under("norm"), width),
    )


def slices(
    backend: Backend, config: PLEModelConfig, parameters: PLEModelParameters, ids: Array, x: Array
) -> tuple[Array, ...]:
    """What each layer is told, `[tokens, ple_dim]`, of ids `[tokens]` embedded as x.

    `(norm(model_projection(x) * model_projection_scale) + rows * ple_embed_scale) * input_scale`,
    where a norm of scaled values is one of plain values with another epsilon.
    """
    shape = (ids.shape[0], config.num_layers, config.ple_dim)
    epsilon = config.norm_config.epsilon / config.model_projection_scale**2
    scaled_norm = config.norm_config.model_copy(update={"epsilon": epsilon})
    projected = linear.apply(backend, parameters.model_projection, x).reshape(shape)
    projected = norm.apply(backend, scaled_norm, parameters.projection_norm, projected)
    rows = backend.embed(parameters.token_embedding, ids, x.dtype).reshape(shape)
    told = backend.wide(projected) + backend.wide(rows) * config.ple_embed_scale
    told = (told * config.input_scale).astype(x.dtype)
    return tuple(told[:, layer] for layer in range(config.num_layers))


def apply(
    backend: Backend,
    config: PLELayerConfig,
    parameters: PLELayerParameters,
    x: Array,
    told: Array,
) -> Array:
    """The stream `[tokens, width]` with the layer's slice `told` `[tokens, ple_dim]` taken in."""
    gates = backend.wide(linear.apply(backend, parameters.gate, x))
    gates = backend.activate(gates, config.activation).astype(x.dtype)
    out = linear.apply(backend, parameters.projection, gates * told)
    return x + norm.apply(backend, config.norm_config, parameters.norm, out)
