"""Checkpoints that are quantised already. Adding a method: a module here, and its line below."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from masu.converter.checkpoint import Checkpoint
from masu.converter.quantised import (
    awq,
    bitsandbytes,
    compressed_tensors,
    fp8,
    gptq,
    mlx,
    mxfp4,
)
from masu.converter.quantised.method import Method, Settings
from masu.specs.errors import ConfigError, TensorMismatch
from masu.specs.manifest import LedgerEntry

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        mlx.METHOD,
        awq.METHOD,
        gptq.METHOD,
        compressed_tensors.METHOD,
        fp8.METHOD,
        mxfp4.METHOD,
        bitsandbytes.METHOD,
    )
}

KEYS = ("quantization_config", "quantization")
"""Where configs say that they are quantised; MLX writes the same object under both."""


@dataclass(frozen=True)
class Quantisation:
    """What a config says of its quantisation, understood."""

    method: Method
    settings: Settings

    def has_whole_norms(self, model_type: str) -> bool:
        """Whether norms that elsewhere store scale - 1 have the 1 added here."""
        return model_type in self.method.whole_norms


def find_quantisation(
    config: Mapping[str, Any], where: str, family: str | None = None
) -> Quantisation | None:
    """How a checkpoint is quantised, from its config.json alone; None if it is not.

    Args:
        family: the `model_type` that the checkpoint is read as; by default the config's.

    Raises:
        ConfigError: a method, format, version or setting outside the closed list, in one line; or
            a family whose weights the method's writer changes.
    """
    found = [value for value in _declared(config) if value is not None]
    if not found:
        return None
    if any(other != found[0] for other in found[1:]) or not isinstance(found[0], Mapping):
        raise ConfigError(f"{where}: config.json: expected one quantisation, found {found!r:.200}")
    raw = {key: value for key, value in found[0].items() if value is not None}
    name = raw.get("quant_method", mlx.METHOD.name)
    method = METHODS.get(name) if isinstance(name, str) else None
    try:
        if method is None:
            raise _refused(where, raw, f"expected one of {', '.join(METHODS)}")
        if (changed := method.refused.get(str(family or config.get("model_type")))) is not None:
            raise _refused(where, raw, changed)
        return Quantisation(method, method.read(raw))
    except ValidationError as error:
        raise _refused(where, raw, "; ".join(_reason(e) for e in error.errors())) from None


def without_quantisation(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the model itself, for families, which know nothing of quantisation."""
    return {
        key: without_quantisation(value) if key == "text_config" and _is_object(value) else value
        for key, value in config.items()
        if key not in KEYS
    }


def presented(checkpoint: Checkpoint, quantisation: Quantisation | None) -> Checkpoint:
    """The checkpoint with its quantised layers as matrices under the names of plain ones.

    Raises:
        TensorMismatch: every layer whose tensors do not fit together.
    """
    if quantisation is None:
        return checkpoint
    method = quantisation.method
    found = method.present(quantisation.settings, checkpoint.tensors)
    if found.problems:
        raise TensorMismatch(
            f"{checkpoint.name}: layers quantised by {method.name} do not fit their config:",
            problems=found.problems,
        )
    config = without_quantisation(checkpoint.config)
    return replace(checkpoint, config=config, tensors=found.tensors, parts=found.parts)


def config_entries(config: Mapping[str, Any]) -> dict[str, LedgerEntry]:
    """What became of the keys that say how a checkpoint is quantised."""
    used = LedgerEntry(status="used", into=("model.safetensors",), reason=None)
    return {key: used for key in KEYS if key in config}


def _declared(config: Mapping[str, Any]) -> list[Any]:
    inner = config.get("text_config")
    scopes = [config, *([inner] if isinstance(inner, Mapping) else [])]
    return [scope[key] for scope in scopes for key in KEYS if key in scope]


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _refused(where: str, raw: Mapping[str, Any], reason: str) -> ConfigError:
    format_ = raw.get("checkpoint_format", raw.get("format"))
    method, version = raw.get("quant_method", mlx.METHOD.name), raw.get("version")
    named = f"method {method!r}, format {format_!r}, version {version!r}"
    return ConfigError(
        f"{where}: config.json: quantisation by {named} is not converted: {reason}",
        hint="docs/quantised.md lists what is; or convert the unquantised checkpoint with --recipe",
    )


def _reason(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"]) or "config"
    message = error["msg"].removeprefix("Value error, ")
    return f"{path}: {message[0].lower()}{message[1:]}, found {error['input']!r:.60}"
