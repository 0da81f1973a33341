"""Where downloads are kept if the caller does not say: the platform's own place for caches."""

import os
import sys
from pathlib import Path


def default_cache_dir() -> Path:
    """`masu` in the user's cache folder (XDG base directories; macOS and Windows conventions)."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "masu"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "masu"
    # The XDG specification: a relative path is to be ignored.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else home / ".cache") / "masu"
