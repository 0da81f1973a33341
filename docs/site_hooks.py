"""What MkDocs is told beside mkdocs.yml: files of the repository that pages link to come along."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)")
"""A link out of docs/, as it works in a clone and on a Git host."""

SITE_FOLDER = "repository"


def on_files(files: Files, *, config: Any) -> Files:
    """The linked files, each under its path in the repository."""
    pages = [page for page in files.documentation_pages() if page.abs_src_path is not None]
    linked = {
        name
        for page in pages
        for name in OUTSIDE.findall(Path(str(page.abs_src_path)).read_text(encoding="utf-8"))
    }
    for name in sorted(linked):
        source = f"{SITE_FOLDER}/{name}"
        files.append(File.generated(config, source, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The same links as they work in the site."""
    return OUTSIDE.sub(rf"]({SITE_FOLDER}/\1", markdown)
