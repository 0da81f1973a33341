"""Names on the Hub: `org/name`, `org/name@revision`, and either with `:path/in/repository`."""

import re
from dataclasses import dataclass

_REPO = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


@dataclass(frozen=True)
class HubFile:
    """A file of a repository; `revision` None means `main`."""

    repo: str
    revision: str | None
    path: str

    def __str__(self) -> str:
        return f"{self.path} of {self.repo}@{self.revision or 'main'}"


def split_hub_name(text: str) -> tuple[str, str | None] | None:
    """Repository and revision, the latter None where there is no `@`; None for other texts."""
    repo, at, revision = text.partition("@")
    if _REPO.fullmatch(repo) is None or (at and not revision):
        return None
    return repo, revision or None


def split_hub_file(text: str, name: str) -> HubFile | None:
    """The file, called `name` unless there is a path; None for texts of another form."""
    place, colon, path = text.partition(":")  # which no revision can have in it
    split = split_hub_name(place)
    if split is None or (colon and not path):
        return None
    return HubFile(*split, path or name)
