"""Reading a Hugging Face config.json: every key is used, inert with a reason, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from masu.converter.config_dialects import normalise, respelled
from masu.specs.errors import ConfigError

NOT_INFERENCE = "plays no part in inference"
CARRIED_ELSEWHERE = "the tokenizer and generation files carry it"

INERT_KEYS: Mapping[str, str] = {
    "_attn_implementation_autoset": NOT_INFERENCE,
    "_name_or_path": "a label",
    "architectures": "model_type decides the family",
    "attention_dropout": NOT_INFERENCE,
    "bos_token_id": CARRIED_ELSEWHERE,
    "cache_implementation": "how transformers stores its cache",
    "dtype": "every tensor carries its own type",
    "eos_token_id": CARRIED_ELSEWHERE,
    "id2label": "labels of a classifier; this is a language model",
    "initializer_range": NOT_INFERENCE,
    "label2id": "labels of a classifier; this is a language model",
    "model_type": "chose the family",
    "num_labels": "labels of a classifier; this is a language model",
    "output_attentions": "what transformers returns beside the logits",
    "output_hidden_states": "what transformers returns beside the logits",
    "output_router_logits": "what transformers returns beside the logits",
    "pad_token_id": "padding is not used by the engine",
    "pretraining_tp": "a way to compute the same product",
    "return_dict": "how transformers returns its results",
    "router_aux_loss_coef": NOT_INFERENCE,
    "transformers.js_config": "settings of another program",
    "transformers_version": "the version that saved the file",
    "use_cache": "how transformers runs",
}


NEUTRAL_KEYS: Mapping[str, tuple[Any, str]] = {
    "add_cross_attention": (False, "off"),
    "chunk_size_feed_forward": (0, "off"),
    "is_decoder": (True, "every family here is one"),
    "is_encoder_decoder": (False, "off"),
    "problem_type": (None, "off"),
    "pruned_heads": ({}, "off"),
    "tie_encoder_decoder": (False, "off"),
}
"""Keys that are inert at this one value, and refused at any other."""


class HFConfig(BaseModel):
    """The keys of one family's config.json that its conversion uses, with transformers' defaults.

    A key that is neither a field here nor inert is refused. Values that would change the maths in
    a way the family does not express are excluded by `Literal` types.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())

    INERT: ClassVar[Mapping[str, str]] = {}
    """Further keys of this family that play no part, each with the reason."""

    RENAMED: ClassVar[Mapping[str, str]] = {}
    """Other spellings of this family's keys, with the field that each is read as."""


Size = Annotated[int, Field(gt=0, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Epsilon = Annotated[float, Field(gt=0, lt=1)]
"""What a norm adds to a mean square: never none of it, nor as much as the square itself."""

MOST_LAYERS = 1000


class StackConfig(HFConfig):
    """The keys that nearly every decoder shares. Sizes have no default: a config names them."""

    vocab_size: Size
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[int, Field(gt=0, le=MOST_LAYERS)]
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    max_position_embeddings: Size
    tie_word_embeddings: bool = False
    rope_parameters: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _heads_share_groups_evenly(self) -> Self:
        if self.num_attention_heads % self.num_groups:
            raise PydanticCustomError(
                "head_groups",
                "num_attention_heads: expected a multiple of num_key_value_heads "
                "{groups}, found {heads}",
                {"groups": self.num_groups, "heads": self.num_attention_heads},
            )
        return self

    @property
    def num_groups(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def even_head_dim(self) -> int:
        """Channels of a head where the config has no key for it."""
        return self.hidden_size // self.num_attention_heads


class DenseConfig(StackConfig):
    """A decoder with root-mean-square norms."""

    rms_norm_eps: Epsilon


class SiluConfig(DenseConfig):
    """A decoder whose MLP is gated by SiLU."""

    hidden_act: Literal["silu"] = "silu"


SENSELESS = (
    "config.json is damaged or not that of this model: take it from the model's own repository"
)
NOT_EXPRESSED = ("literal_error", "value_error")
"""Errors of values that transformers may know and the family does not."""

ConfigT = TypeVar("ConfigT", bound=HFConfig)


@dataclass(frozen=True)
class ConfigAccount:
    """What became of each key of config.json."""

    used: tuple[str, ...]
    defaulted: Mapping[str, Any]
    inert: Mapping[str, str]


def read_config(
    schema: type[ConfigT], raw: Mapping[str, Any], where: str
) -> tuple[ConfigT, ConfigAccount]:
    """Validate a config.json against a family's schema and account for every key.

    Raises:
        ConfigError: all unknown keys and refused values, in one message.
    """
    flat, settled = normalise(raw, where)
    flat, renamed = respelled(flat, schema.RENAMED, where)
    settled |= renamed
    inert = {**INERT_KEYS, **_neutral(flat), **schema.INERT}
    wanted = {key: value for key, value in flat.items() if key in schema.model_fields}
    unknown = flat.keys() - wanted.keys() - inert.keys()
    problems = [_unknown_key(key, flat[key]) for key in sorted(unknown)]
    try:
        config = schema.model_validate(_tuples(wanted))
    except ValidationError as error:
        wrong = error.errors()
        is_new = bool(problems) or any(e["type"] in NOT_EXPRESSED for e in wrong)
        raise _refused(where, problems + [_value_problem(e) for e in wrong], is_new) from None
    if problems:
        raise _refused(where, problems, is_new=True)
    found = {key: reason for key, reason in inert.items() if key in flat and key not in wanted}
    defaulted = {key: getattr(config, key) for key in schema.model_fields if key not in flat}
    own = wanted.keys() - {schema.RENAMED[key] for key in renamed} | wanted.keys() & raw.keys()
    return config, ConfigAccount(tuple(sorted(own)), defaulted, {**found, **settled})


def _neutral(config: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: reason
        for key, (value, reason) in NEUTRAL_KEYS.items()
        if key in config and config[key] == value
    }


def _unknown_key(key: str, value: Any) -> str:
    return f"{key}: expected no such key for this family, found {_short(value)}"


def _value_problem(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"{path}: expected a value, found no such key"
    message = error["msg"].removeprefix("Value error, ")
    if not path:  # of several keys together, which the message names
        return message
    return f"{path}: {message[0].lower()}{message[1:]}, found {_short(error['input'])}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refused(where: str, problems: list[str], is_new: bool) -> ConfigError:
    """`is_new`: something may be right, but the family does not know it."""
    unknown = (
        "a key that changes the model's mathematics must be handled by the family's file "
        "in converter/families, or named there as inert with a reason"
    )
    return ConfigError(
        f"{where}: config.json has keys or values that this family cannot convert:",
        problems=problems,
        hint=unknown if is_new else SENSELESS,
    )


def _tuples(value: Any) -> Any:
    """JSON arrays as tuples, which frozen strict models expect."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
