"""A projection. Its weight format stands in the file's metadata, not in config.json."""

from masu.specs.strict import Strict


class LinearConfig(Strict):
    """The empty object."""
