"""The spellings of transformers 4 and 5, and a family's own older ones, brought to one."""

from collections.abc import Mapping
from typing import Any

from masu.specs.errors import ConfigError

ROPE_V4_KEYS = ("rope_theta", "rope_scaling", "rope_local_base_freq", "partial_rotary_factor")
SETTLED_ROPE = "read as part of rope_parameters"


def normalise(raw: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """One dialect out of two, and a note for every key that was read on the way.

    Raises:
        ConfigError: the two dialects stand side by side and disagree.
    """
    config = dict(raw)
    notes: dict[str, str] = {}
    if "torch_dtype" in config:
        config.pop("torch_dtype")
        notes["torch_dtype"] = "every tensor carries its own type"
    older = {key: config.pop(key) for key in ROPE_V4_KEYS if key in config}
    if older:
        notes |= dict.fromkeys(older, SETTLED_ROPE)
        config["rope_parameters"] = _merge(config.get("rope_parameters"), older, where)
    return config, notes


def respelled(
    config: Mapping[str, Any], renamed: Mapping[str, str], where: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """The config with a family's other spellings replaced, and a note for each.

    Args:
        renamed: the key to read, by its other spellings.

    Raises:
        ConfigError: two spellings of one key disagree.
    """
    settled, problems = dict(config), []
    notes = {key: f"read as {name}" for key, name in renamed.items() if key in config}
    for key in notes:
        value, name = settled.pop(key), renamed[key]
        if settled.setdefault(name, value) != value:
            problems.append(f"{key} is {value!r}, and {name}, which means the same, is not")
    if problems:
        raise ConfigError(
            f"{where}: config.json says two things in two spellings:",
            problems=problems,
            hint="remove the spelling that is wrong",
        )
    return settled, notes


def _merge(newer: Any, older: Mapping[str, Any], where: str) -> dict[str, Any]:
    built = _from_version_4(older, where)
    if newer is None:
        return built
    if not isinstance(newer, dict):
        raise _no_object("rope_parameters", newer, where)
    contradictions = _contradictions(newer, built)
    if contradictions:
        raise ConfigError(
            f"{where}: config.json says two things about its rotary embedding:",
            problems=contradictions,
            hint="remove the keys of the older or of the newer dialect",
        )
    return {**built, **newer}


def _contradictions(newer: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    return [
        f"rope_parameters.{key} is {newer[key]!r}, the older keys say {value!r}"
        for key, value in built.items()
        if key in newer and newer[key] != value
    ]


def _from_version_4(older: Mapping[str, Any], where: str) -> dict[str, Any]:
    scaling = older.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise _no_object("rope_scaling", scaling, where)
    main = {key: value for key, value in scaling.items() if key != "type"}
    older_type = scaling.get("type")
    if older_type is not None and main.setdefault("rope_type", older_type) != older_type:
        raise ConfigError(
            f"{where}: config.json: rope_scaling: type is {older_type!r}, "
            f"rope_type is {main['rope_type']!r}"
        )
    for key in ("rope_theta", "partial_rotary_factor"):
        if older.get(key) is not None:
            main[key] = older[key]
    if "rope_local_base_freq" not in older:
        return main
    local = {"rope_type": "default", "rope_theta": older["rope_local_base_freq"]}
    return {"full_attention": main, "sliding_attention": local}


def _no_object(key: str, found: Any, where: str) -> ConfigError:
    return ConfigError(f"{where}: config.json: {key}: expected an object, found {found!r}")
