"""How an engine release spells a package: config keys, tensor names, order of group planes.

Everything in masu speaks one canonical dialect, which is that of uzu 0.6. A dialect translates
where a package is read or written, and nowhere else.
"""

from collections.abc import Mapping
from typing import Any

from masu.specs.formats.base import Planes
from masu.specs.model import ModelConfig
from masu.specs.row_parts import RowPart


class Dialect:
    """The canonical dialect, in which nothing needs translation; others override what differs."""

    name: str = "uzu-0.6"
    planes: Planes = "group_major"

    def recognises(self, config: Any) -> bool:
        """Whether the keys of a parsed config.json show that it is in this dialect.

        The canonical dialect takes what no other recognises, so it claims nothing.
        """
        return False

    def encode_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A canonical config as this dialect writes it.

        Raises:
            EngineError: the dialect has no words for a field's value; names the field.
        """
        return dict(config)

    def decode_config(self, config: Any) -> Any:
        """A parsed config.json as canonical JSON, ready for validation.

        Raises:
            SchemaError: keys of this dialect and of another stand side by side.
            EngineError: a valid package of the dialect that masu cannot read yet.
        """
        return config

    def stored_name(self, name: str) -> str:
        """The name in the file of a canonical tensor name or matrix path."""
        return name

    def row_parts(self, config: ModelConfig) -> Mapping[str, tuple[RowPart, ...]]:
        """The matrices that the file holds in several pieces, by canonical path."""
        return {}

    def canonical_name(self, stored: str) -> str:
        """The inverse of `stored_name`."""
        return stored
