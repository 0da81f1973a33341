"""One commit of a Hub repository in huggingface_hub's cache, filled file by file."""

import glob
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from masu.converter.sources.hub_errors import hub_errors
from masu.converter.sources.listing import Listing, list_paths
from masu.specs.errors import SourceError, SourceNotFound

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import tqdm

# git-check-ref-format(1), as far as a name could lead out of the cache's folder of refs
_REVISION = re.compile(r"(?!/)(?!.*\.\.)[^\s\x00-\x1f\x7f~^:?*\[\\]+")


def pin(
    repo: str, revision: str, offline: bool, cache_dir: Path | None, endpoint: str | None
) -> "HubSnapshot":
    """The commit that a branch or tag means now; offline: when it was last asked for.

    Raises:
        SourceNotFound: no such repository or revision; offline: never asked for.
        SourceError: the Hub cannot be reached or refuses access.
    """
    from huggingface_hub import HfApi, is_offline_mode

    if _REVISION.fullmatch(revision) is None:
        raise SourceNotFound(f"{revision!r} is no name of a branch, a tag or a commit")
    offline = offline or is_offline_mode()

    class StrictApi(HfApi):
        """Lets no failure pass: `resolve_revision` would go back to an old commit silently."""

        def repo_info(self, *args, **kwargs):
            with hub_errors(repo, revision, offline=offline):
                return super().repo_info(*args, **kwargs)

    with hub_errors(repo, revision, offline=offline):
        resolved = StrictApi(endpoint).resolve_revision(
            repo, revision=revision, cache_dir=cache_dir, local_files_only=offline
        )
    return HubSnapshot(repo, revision, resolved.resolved, offline, cache_dir, endpoint)


@dataclass(frozen=True)
class HubSnapshot:
    """One commit of a repository; files are fetched into the cache when asked for.

    Attributes:
        revision: what the commit was resolved from, for messages.
        commit: its full hash.
        local_dir: where files go instead of the cache.
    """

    repo: str
    revision: str
    commit: str
    offline: bool
    cache_dir: Path | None
    endpoint: str | None
    local_dir: Path | None = None

    def fetch(self, names: Collection[str], *, progress: bool = False) -> Path:
        """Bring files into the cache, those that the commit has; the folder where they lie.

        Args:
            progress: show huggingface_hub's bars, if stderr is a terminal.
        """
        from huggingface_hub import snapshot_download

        with hub_errors(self.repo, self.revision, offline=self.offline):
            folder = snapshot_download(
                self.repo,
                revision=self.commit,
                cache_dir=self.cache_dir,
                local_dir=self.local_dir,
                endpoint=self.endpoint,
                local_files_only=self.offline,
                allow_patterns=[glob.escape(name) for name in names],
                tqdm_class=_bar(progress),
            )
        return Path(folder)

    def tree(self) -> "list[RepoFile]":
        """Every file of the commit, with its size and hash, as the Hub lists them now."""
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        with hub_errors(self.repo, self.revision, offline=self.offline):
            listed = HfApi(self.endpoint).list_repo_tree(
                self.repo, recursive=True, revision=self.commit
            )
            return [entry for entry in listed if isinstance(entry, RepoFile)]

    def listing(self) -> Listing:
        """What the commit holds."""
        return list_paths(self.sizes())

    def sizes(self) -> dict[str, int]:
        """Bytes of every file of the commit. This list comes with the first `fetch`.

        Raises:
            SourceError: the cache was filled by a tool that stored no list, and the Hub gives none.
        """
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError

        try:
            files = get_cached_repo_tree(self.repo, revision=self.commit, cache_dir=self.cache_dir)
        except CachedRepoTreeNotFoundError as error:
            raise SourceError(
                f"there is no list of the files of {self.repo} at {self.commit} in the cache, so a"
                " missing file could not be told from one that never was",
                hint="run once without --offline, or convert that folder of the cache itself"
                if self.offline
                else "check whether the Hub can be reached and shows the repository to you",
            ) from error
        return {file.path: file.size for file in files}


def _bar(shown: bool) -> "type[tqdm]":
    """huggingface_hub's progress bar; its own choice would be to write into log files as well."""
    from huggingface_hub.utils import tqdm

    class Bar(tqdm):
        def __init__(self, *args, **options):
            only_on_terminals = None if shown else True
            options["disable"] = options.get("disable") or only_on_terminals
            super().__init__(*args, **options)

    return Bar
