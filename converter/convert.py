"""A checkpoint and a family become a planned package; no weight has been read yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masu.converter.assemble import embedding
from masu.converter.checkpoint import Checkpoint
from masu.converter.config import ConfigAccount, read_config
from masu.converter.families import load_family
from masu.converter.family import Family
from masu.converter.table import READOUT, TOKEN_TABLE, match
from masu.converter.tensor_plan import Placing, TensorPlan, plan_tensors
from masu.converter.text_import import ImportedText, import_text
from masu.converter.tie import Tie, settle_tie
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.dtypes import FloatDType
from masu.specs.errors import ConfigError, TensorMismatch
from masu.specs.manifest import Ledger, LedgerEntry
from masu.specs.model import LanguageModelConfig
from masu.specs.models import ModelSpec
from masu.specs.stream import PlannedTensor


@dataclass(frozen=True)
class ConversionPlan:
    """Everything that a conversion will write.

    Attributes:
        family: the `model_type` that was used.
        config: the future config.json, canonical dialect.
        dtype: element type of the model's parameters, by its name in the file.
        stream: every tensor, in the order of the config.
        tokenizer: the future tokenizer.json.
        ledger: what became of every source tensor, config key and text file.
        rounded: tensors that lose precision, with the source's type and the stored one.
        chunk_bytes: the most that converting one tensor holds in memory at a time.
    """

    name: str
    family: str
    config: LanguageModelConfig
    dtype: FloatDType
    stream: tuple[PlannedTensor, ...]
    tokenizer: bytes
    ledger: Ledger
    rounded: Mapping[str, tuple[str, str]]
    chunk_bytes: int


def accept_config(raw: Mapping[str, Any], family: str | None, where: str) -> Family[Any]:
    """The family of a config.json, refused before any weight is fetched if there is none.

    Raises:
        UnknownFamily, ConfigError: no such family; keys or values that it does not read.
    """
    found = load_family(family or model_type(raw, where))
    read_config(found.config, language_config(found, raw, where), where)
    return found


def model_type(raw: Mapping[str, Any], where: str) -> str:
    value = raw.get("model_type")
    if not isinstance(value, str):
        raise ConfigError(
            f"{where}: config.json: model_type: expected a family's name, found {value!r}",
            hint="--family names the family for a config without a model_type",
        )
    return value


def language_config(family: Family[Any], raw: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The part of a multimodal config that describes the language model."""
    if family.text_config is None or family.text_config not in raw:
        return raw
    inner = raw[family.text_config]
    if not isinstance(inner, dict):
        raise ConfigError(
            f"{where}: config.json: {family.text_config}: expected an object, found {inner!r}"
        )
    return inner


def plan_conversion(
    checkpoint: Checkpoint, spec: ModelSpec, *, dtype: FloatDType, family: str | None = None
) -> ConversionPlan:
    """Plan the package of a checkpoint. Raises a SourceError for everything that is wrong."""
    where = checkpoint.name
    name = family or model_type(checkpoint.config, where)
    found = load_family(name)
    raw = language_config(found, checkpoint.config, where)
    config, account = read_config(found.config, raw, where)
    table = found.weights(config)
    tie = _settle(found.tied(config), table, checkpoint)
    decoder = _with_tie(found.decoder(config), tie)
    text = import_text(checkpoint, spec, decoder.vocab_size)
    model = LanguageModelConfig(
        type="LanguageModelConfig",
        token_codec_config=text.codec,
        decoder_config=decoder,
        generation_config=text.generation,
    )
    tensors = plan_tensors(table, checkpoint, dict(model.tensors()), dtype, _placing(tie))
    return ConversionPlan(
        name=checkpoint.name,
        family=name,
        config=model,
        dtype=dtype,
        stream=tensors.stream,
        tokenizer=text.tokenizer,
        ledger=_ledger(checkpoint, account, tensors, text, tie),
        rounded=tensors.rounded,
        chunk_bytes=tensors.chunk_bytes,
    )


def _settle(flag: bool, table: Any, checkpoint: Checkpoint) -> Tie:
    matches, _ = match(table, checkpoint.tensors)
    named = {found.name: checkpoint.tensors[found.source] for found in matches}
    if TOKEN_TABLE not in named:
        raise TensorMismatch(f"{checkpoint.name}: no token embedding among the tensors")
    return settle_tie(flag, named[TOKEN_TABLE], named.get(READOUT))


def _with_tie(decoder: DecoderConfig, tie: Tie) -> DecoderConfig:
    fields = decoder.embedding_config.model_dump(exclude={"type"})
    return decoder.model_copy(update={"embedding_config": embedding(tied=tie.tied, **fields)})


def _placing(tie: Tie) -> Placing:
    if not tie.tied:
        names = {
            TOKEN_TABLE: "embedding.input_embedding",
            READOUT: "embedding.output_embedding",
        }
        return Placing(names, {})
    dropped = {READOUT: "equal to the token embedding, stored once"} if tie.duplicate else {}
    return Placing({TOKEN_TABLE: "embedding.embedding"}, dropped)


def _ledger(
    checkpoint: Checkpoint,
    account: ConfigAccount,
    tensors: TensorPlan,
    text: ImportedText,
    tie: Tie,
) -> Ledger:
    notes = [*([tie.note] if tie.note else []), *_rounding_note(tensors), *text.notes]
    notes += [
        f"stop token {token}: {' and '.join(origins)}"
        for token, origins in sorted(text.stop_origins.items())
    ]
    return Ledger(
        tensors=dict(tensors.ledger),
        config_keys=_config_entries(checkpoint, account),
        files={**text.files, **_unread_files(checkpoint)},
        notes=tuple(notes),
    )


def _rounding_note(tensors: TensorPlan) -> list[str]:
    kinds: dict[tuple[str, str], int] = {}
    for kind in tensors.rounded.values():
        kinds[kind] = kinds.get(kind, 0) + 1
    return [
        f"{count} tensors are rounded once, from {source} to {stored}"
        for (source, stored), count in sorted(kinds.items())
    ]


def _config_entries(checkpoint: Checkpoint, account: ConfigAccount) -> dict[str, LedgerEntry]:
    used = {
        key: LedgerEntry(status="used", into=("config.json",), reason=None) for key in account.used
    }
    absent = {
        key: LedgerEntry(
            status="used", into=("config.json",), reason=f"absent; transformers' default {value!r}"
        )
        for key, value in account.defaulted.items()
    }
    inert = {**account.inert, **checkpoint.inert_keys}
    unused = {
        key: LedgerEntry(status="inert", into=(), reason=reason) for key, reason in inert.items()
    }
    return {**used, **absent, **unused}


def _unread_files(checkpoint: Checkpoint) -> dict[str, LedgerEntry]:
    return {
        name: LedgerEntry(status="inert", into=(), reason=reason)
        for name, reason in checkpoint.inert_files.items()
    }
