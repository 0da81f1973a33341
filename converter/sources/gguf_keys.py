"""The metadata keys that describe a model: every key is a field here, inert, or refused.

Field names are this file's; the aliases are the keys of the GGUF specification without the
prefix of their section. Defaults are those of llama.cpp's loader.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from masu.specs.errors import ConfigError, SourceError

Count = Annotated[int, Field(gt=0, lt=2**31)]
One = Annotated[float, Field(ge=1, le=1)]
Zero = Annotated[float, Field(ge=0, le=0)]


def _uniform(value: Any) -> Any:
    """One number for all layers, where the file lists the same number for each."""
    if not isinstance(value, np.ndarray):
        return value
    different = sorted(set(value.tolist()))
    if len(different) != 1:
        raise ValueError(f"expected the same number for all layers, found {different[:8]}")
    return different[0]


PerLayer = Annotated[Count, BeforeValidator(_uniform)]


class SectionKeys(BaseModel):
    """The keys with one prefix. `INERT` names those that play no part, each with the reason."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True
    )

    INERT: ClassVar[Mapping[str, str]] = {}
    HINT: ClassVar[str] = (
        "a key that changes what the model computes must be handled in "
        "converter/sources/gguf_keys.py, or named there as inert with a reason"
    )


class ArchitectureKeys(SectionKeys):
    """What every architecture may say about itself."""

    INERT: ClassVar[Mapping[str, str]] = {
        "rope.scaling.finetuned": "says how the model was trained",
    }

    context_length: Count
    embedding_length: Count
    block_count: Count
    feed_forward_length: PerLayer
    head_count: PerLayer = Field(alias="attention.head_count")
    head_count_kv: PerLayer | None = Field(None, alias="attention.head_count_kv")
    key_length: Count | None = Field(None, alias="attention.key_length")
    value_length: Count | None = Field(None, alias="attention.value_length")
    rms_epsilon: float = Field(alias="attention.layer_norm_rms_epsilon", gt=0, lt=1)
    vocab_size: Count | None = None
    rope_dimensions: Count | None = Field(None, alias="rope.dimension_count")
    rope_base: float = Field(10000.0, alias="rope.freq_base", gt=0)
    # llama.cpp takes a factor without a type for linear scaling.
    rope_scaling: Literal["none", "linear", "yarn"] = Field("linear", alias="rope.scaling.type")
    rope_factor: float = Field(1.0, alias="rope.scaling.factor", gt=0)
    rope_original_context: Count | None = Field(None, alias="rope.scaling.original_context_length")
    yarn_beta_fast: float = Field(32.0, alias="rope.scaling.yarn_beta_fast")
    yarn_beta_slow: float = Field(1.0, alias="rope.scaling.yarn_beta_slow")
    # Further factors on the attention of a scaled rope: only their neutral values are served.
    rope_attention_factor: One = Field(1.0, alias="rope.scaling.attn_factor")
    yarn_attention_factor: One = Field(1.0, alias="rope.scaling.yarn_attn_factor")
    yarn_extension_factor: One = Field(1.0, alias="rope.scaling.yarn_ext_factor")
    yarn_log_multiplier: Zero = Field(0.0, alias="rope.scaling.yarn_log_multiplier")


class LlamaKeys(ArchitectureKeys):
    # The layout of every llama file in this format; old ones name it.
    tensor_data_layout: Literal["Meta AI original pth"] | None = None


class Gemma3Keys(ArchitectureKeys):
    sliding_window: Count | None = Field(None, alias="attention.sliding_window")
    # Every nth layer sees everything, the others a window. Or flags, true for a window.
    window_pattern: Count | np.ndarray = Field(6, alias="attention.sliding_window_pattern")
    rope_base_sliding: float = Field(10000.0, alias="rope.freq_base_swa", gt=0)
    final_logit_softcapping: float | None = Field(None, gt=0)


class SamplingKeys(SectionKeys):
    """Recommended sampling. What the engine's generation config has no word for is inert."""

    INERT: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("sequence", "xtc_probability", "xtc_threshold", "penalty_last_n"),
            *("mirostat", "mirostat_tau", "mirostat_eta"),
        ),
        "a way of sampling that generation_config.json has no word for",
    )

    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    temp: float | None = None
    penalty_repeat: float | None = None

    def settings(self) -> dict[str, Any]:
        """The recommendation in generation_config.json's words."""
        found = {
            "temperature": self.temp,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "repetition_penalty": self.penalty_repeat,
        }
        given = {key: value for key, value in found.items() if value is not None}
        return {"do_sample": self.temp != 0, **given} if given else {}


class GeneralKeys(SectionKeys):
    """The keys that say what kind of file this is; the others of their section are descriptions."""

    model_config = ConfigDict(extra="ignore")

    architecture: str
    type: Literal["model"] = "model"
    quantization_version: Literal[2] = 2


class SplitKeys(SectionKeys):
    """A model may be spread over several files; only whole ones are read."""

    INERT: ClassVar[Mapping[str, str]] = {
        "no": "the only part", "tensors.count": "the only part",
    }  # fmt: skip

    HINT: ClassVar[str] = "join the parts first: llama-gguf-split --merge FIRST_PART WHOLE"

    count: Literal[0, 1] = 1


KeysT = TypeVar("KeysT", bound=SectionKeys)


def read_keys(
    schema: type[KeysT],
    metadata: Mapping[str, Any],
    prefix: str,
    where: str,
    *,
    error: type[SourceError] = ConfigError,
) -> tuple[KeysT, dict[str, str]]:
    """The keys with a prefix, validated, and those of them that are inert, with the reasons.

    Args:
        where: the file, for messages.
        error: the class of the error raised.

    Raises:
        SourceError: all missing, unknown and refused keys, in one message.
    """
    own = {key.removeprefix(prefix): v for key, v in metadata.items() if key.startswith(prefix)}
    inert = {f"{prefix}{key}": reason for key, reason in schema.INERT.items() if key in own}
    try:
        keys = schema.model_validate({k: v for k, v in own.items() if k not in schema.INERT})
    except ValidationError as invalid:
        raise error(
            f"{where} has metadata that it cannot be converted with:",
            problems=list(_problems(invalid, prefix)),
            hint=schema.HINT,
        ) from None
    return keys, inert


def _problems(invalid: ValidationError, prefix: str) -> Iterator[str]:
    for item in invalid.errors():
        key = f"{prefix}{item['loc'][0]}"
        if item["type"] == "missing":
            yield f"{key}: expected a value, found no such key"
        elif item["type"] == "extra_forbidden":
            yield f"{key}: expected no such key, found {_short(item['input'])}"
        else:
            message = item["msg"].removeprefix("Value error, ")
            yield f"{key}: {message[0].lower()}{message[1:]}, found {_short(item['input'])}"


def _short(value: Any) -> str:
    # Not repr(value) as a whole: it may be an array of a million.
    shown = value[:4] if isinstance(value, (list, np.ndarray)) else value
    text = repr(shown)
    return text if len(text) <= 80 else f"{text[:77]}..."
