"""A checkpoint and a family become a planned package; no weight has been read yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from masu.converter.assemble import retied
from masu.converter.checkpoint import Checkpoint
from masu.converter.config import CARRIED_ELSEWHERE, SENSELESS, ConfigAccount, read_config
from masu.converter.config_dialects import SETTLED_ROPE
from masu.converter.families import load_family
from masu.converter.family import Family
from masu.converter.making import Codes
from masu.converter.multimodal import language_config, outer_entries
from masu.converter.quantised import (
    Quantisation,
    config_entries,
    find_quantisation,
    presented,
    without_quantisation,
)
from masu.converter.quantised.norms import with_whole_norms
from masu.converter.table import READOUT, TOKEN_TABLE, match
from masu.converter.tensor_plan import Placing, TensorPlan, plan_tensors
from masu.converter.text_import import ImportedText, import_text
from masu.converter.tie import Tie, settle_tie
from masu.specs.blocks.classifier import ClassifierConfig
from masu.specs.dtypes import FloatDType
from masu.specs.errors import ConfigError, TensorMismatch
from masu.specs.manifest import Ledger, LedgerEntry
from masu.specs.model import (
    ClassifierModelConfig,
    LanguageModelConfig,
    NetworkConfig,
    TextModelConfig,
)
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
        stop_origins: the files that name each stop token.
        chat_template: as the source has it; the config's own is what the engine reads.
    """

    name: str
    family: str
    config: TextModelConfig
    dtype: FloatDType
    stream: tuple[PlannedTensor, ...]
    tokenizer: bytes
    ledger: Ledger
    rounded: Mapping[str, tuple[str, str]]
    chunk_bytes: int
    stop_origins: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    chat_template: str = ""


def accept_config(raw: Mapping[str, Any], family: str | None, where: str) -> Family[Any]:
    """The family of a config.json, refused before any weight is fetched if there is none.

    Raises:
        UnknownFamily, ConfigError: no such family; keys or values that it does not read; a
            quantisation that is not converted.
    """
    found = load_family(family or model_type(raw, where))
    find_quantisation(raw, where, family)
    own = language_config(found, without_quantisation(raw), where)
    config, _ = read_config(found.config, own, where)
    _network(found, config, where)
    return found


def model_type(raw: Mapping[str, Any], where: str) -> str:
    value = raw.get("model_type")
    if not isinstance(value, str):
        raise ConfigError(
            f"{where}: config.json: model_type: expected a family's name, found {value!r}",
            hint="--family names the family for a config without a model_type",
        )
    return value


def plan_conversion(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    *,
    dtype: FloatDType,
    family: str | None = None,
    keep_codes: bool | None = None,
    largest_group: int | None = None,
) -> ConversionPlan:
    """Plan the package of a checkpoint. Raises a SourceError for everything that is wrong.

    Args:
        keep_codes: whether matrices that are quantised already stay so, where a format holds
            their codes; None: as the kind of source has it (GGUF is decoded, all others kept).
        largest_group: larger groups of such matrices are cut, without loss, for engines that have
            kernels only up to this size; None leaves them.
    """
    quantisation = find_quantisation(checkpoint.config, checkpoint.name, family)
    shown = presented(checkpoint, quantisation)
    codes = Codes(shown.keeps_codes if keep_codes is None else keep_codes, largest_group)
    name = family or model_type(shown.config, shown.name)
    planned = _plan(shown, spec, dtype, name, codes, quantisation)
    keys = {**planned.ledger.config_keys, **config_entries(checkpoint.config)}
    return replace(planned, ledger=planned.ledger.model_copy(update={"config_keys": keys}))


def _plan(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    dtype: FloatDType,
    name: str,
    codes: Codes,
    quantisation: Quantisation | None,
) -> ConversionPlan:
    where, found = checkpoint.name, load_family(name)
    raw = language_config(found, checkpoint.config, where)
    config, account = read_config(found.config, raw, where)
    table = found.weights(config)
    tie = _settle(found.tied(config), table, checkpoint)
    network = _with_tie(_network(found, config, where), tie)
    if quantisation is not None and quantisation.has_whole_norms(name):
        network = with_whole_norms(network)
    text = _text(checkpoint, raw, spec, network)
    model = _model(network, text)
    entries, placing = dict(model.tensors()), _placing(tie, model.ROOT)
    tensors = plan_tensors(table, checkpoint, entries, dtype, placing, codes)
    return ConversionPlan(
        name=where,
        family=name,
        config=model,
        dtype=dtype,
        stream=tensors.stream,
        tokenizer=text.tokenizer,
        ledger=_ledger(found, checkpoint, account, tensors, text, tie),
        rounded=tensors.rounded,
        chunk_bytes=tensors.chunk_bytes,
        stop_origins=text.stop_origins,
        chat_template=text.template,
    )


def _text(
    checkpoint: Checkpoint, raw: Mapping[str, Any], spec: ModelSpec, network: NetworkConfig
) -> ImportedText:
    stops = {"eos_token_id": raw.get("eos_token_id")}
    whole = replace(checkpoint, config={**stops, **checkpoint.config})
    classifies = isinstance(network, ClassifierConfig)
    return import_text(whole, spec, network.vocab_size, classifies=classifies)


def _network(family: Family[Any], config: Any, where: str) -> NetworkConfig:
    """The engine model of a config; sizes that no model can have are a fault of the config."""
    try:
        return family.decoder(config)
    except ConfigError as error:
        if error.message.startswith(where):
            raise
        message = f"{where}: {error.message}"
        raise ConfigError(message, problems=error.problems, hint=error.hint) from None
    except ValidationError as error:
        problems = [_impossible(error.title, e) for e in error.errors()]
        raise ConfigError(
            f"{where}: config.json describes no possible model:", problems=problems, hint=SENSELESS
        ) from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}: config.json describes no possible model: {error}", hint=SENSELESS
        ) from None


def _impossible(block: str, error: Any) -> str:
    """One fault of a block of the engine; one of the whole block says itself what was found."""
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"{block}: {message}"
    place = ".".join(map(str, error["loc"]))
    return f"{block}.{place}: {message}, found {error['input']!r:.80}"


def _settle(flag: bool, table: Any, checkpoint: Checkpoint) -> Tie:
    matches, _ = match(table, checkpoint.tensors)
    named = {found.name: checkpoint.tensors[found.source] for found in matches}
    if TOKEN_TABLE not in named:
        raise TensorMismatch(f"{checkpoint.name}: no token embedding among the tensors")
    return settle_tie(flag, named[TOKEN_TABLE], named.get(READOUT))


def _with_tie(network: NetworkConfig, tie: Tie) -> NetworkConfig:
    return network.model_copy(
        update={"embedding_config": retied(network.embedding_config, tie.tied)}
    )


def _model(network: NetworkConfig, text: ImportedText) -> TextModelConfig:
    if isinstance(network, ClassifierConfig):
        return ClassifierModelConfig(
            type="ClassifierModelConfig", token_codec_config=text.codec, classifier_config=network
        )
    return LanguageModelConfig(
        type="LanguageModelConfig",
        token_codec_config=text.codec,
        decoder_config=network,
        generation_config=text.generation,
    )


def _placing(tie: Tie, root: str) -> Placing:
    if not tie.tied:
        names = {
            TOKEN_TABLE: "embedding.input_embedding",
            READOUT: "embedding.output_embedding",
        }
        return Placing(root, names, {})
    dropped = {READOUT: "equal to the token embedding, stored once"} if tie.duplicate else {}
    return Placing(root, {TOKEN_TABLE: "embedding.embedding"}, dropped)


def _ledger(
    family: Family[Any],
    checkpoint: Checkpoint,
    account: ConfigAccount,
    tensors: TensorPlan,
    text: ImportedText,
    tie: Tie,
) -> Ledger:
    notes = [
        *([tie.note] if tie.note else []),
        *tensors.notes,
        *_rounding_note(tensors),
        *text.notes,
    ]
    notes += [
        f"stop token {token}: {' and '.join(origins)}"
        for token, origins in sorted(text.stop_origins.items())
    ]
    return Ledger(
        tensors=dict(tensors.ledger),
        config_keys=outer_entries(family, checkpoint.config) | _config_entries(checkpoint, account),
        files={**text.files, **_unread_files(checkpoint)},
        notes=tuple(notes),
    )


def _rounding_note(tensors: TensorPlan) -> list[str]:
    """Tensors stored as numbers; of those stored as codes, their own notes speak."""
    coded = {tensor.name for tensor in tensors.stream if tensor.decoded is not None}
    kinds: dict[tuple[str, str], int] = {}
    for name, kind in tensors.rounded.items():
        if name not in coded:
            kinds[kind] = kinds.get(kind, 0) + 1
    return [
        f"{count} tensors are rounded once, from {source} to {stored}"
        for (source, stored), count in sorted(kinds.items())
    ]


def _config_entries(checkpoint: Checkpoint, account: ConfigAccount) -> dict[str, LedgerEntry]:
    into = ("config.json",)
    used = {key: LedgerEntry(status="used", into=into, reason=None) for key in account.used}
    absent = {
        key: LedgerEntry(
            status="used", into=("config.json",), reason=f"absent; transformers' default {value!r}"
        )
        for key, value in account.defaulted.items()
    }
    read = {SETTLED_ROPE, CARRIED_ELSEWHERE}
    used |= {
        key: LedgerEntry(status="used", into=into, reason=reason)
        for key, reason in account.inert.items()
        if reason in read
    }
    rest = {key: reason for key, reason in account.inert.items() if reason not in read}
    inert = {**rest, **checkpoint.inert_keys}
    unused = {
        key: LedgerEntry(status="inert", into=(), reason=reason) for key, reason in inert.items()
    }
    return {**used, **absent, **unused}


def _unread_files(checkpoint: Checkpoint) -> dict[str, LedgerEntry]:
    return {
        name: LedgerEntry(status="inert", into=(), reason=reason)
        for name, reason in checkpoint.inert_files.items()
    }
