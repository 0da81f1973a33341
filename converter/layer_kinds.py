"""Which layer is of which kind: by the config's list, otherwise by the family's own rule."""

from collections.abc import Collection, Sequence

from masu.converter.sliding import FULL
from masu.specs.errors import ConfigError

LINEAR = "linear_attention"
OLDER_NAMES = {"mamba": LINEAR, "attention": FULL}
"""What transformers 4 called the kinds of layers of Mamba-2 hybrids."""


def layer_kinds(
    given: Sequence[str] | None,
    rule: Sequence[str],
    known: Collection[str],
    key: str = "layer_types",
) -> tuple[str, ...]:
    """The kind of each layer.

    Args:
        given: the config's list, one name for each layer; it decides where it is there.
        rule: what the other keys say.
        known: the kinds that the family has.
        key: the list's name in the config.

    Raises:
        ConfigError: a wrong number of names, or an unknown one.
    """
    kinds = tuple(rule if given is None else given)
    problems = [
        f"{key}[{index}]: expected one of {', '.join(known)}, found {kind!r}"
        for index, kind in enumerate(kinds)
        if kind not in known
    ]
    if len(kinds) != len(rule):
        problems.append(f"{key}: expected {len(rule)} names, one per layer, found {len(kinds)}")
    if problems:
        raise ConfigError("config.json: the kinds of the layers are not clear:", problems=problems)
    return kinds


def hybrid_kinds(
    given: Sequence[str] | None,
    rule: Sequence[str],
    known: Collection[str] = (LINEAR, FULL),
    key: str = "layer_types",
) -> tuple[str, ...]:
    """`layer_kinds` of a hybrid with Mamba-2, by either of their names."""
    named = None if given is None else [OLDER_NAMES.get(kind, kind) for kind in given]
    return layer_kinds(named, rule, known, key)
