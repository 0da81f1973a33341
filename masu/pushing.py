"""Publishes a package on the Hub, if it is proven to be what its manifest and its report say."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from masu.converter.sources.hub_errors import hub_errors
from masu.converter.sources.hub_names import split_hub_name
from masu.events import Event, OnEvent
from masu.model_card import Licence, model_card
from masu.specs.check import check_package, damage
from masu.specs.errors import IntegrityError, OutputError, RequestError, SourceError, VerdictError
from masu.specs.manifest import MANIFEST, Manifest
from masu.specs.output import PACKAGE_FILES
from masu.specs.package import Package
from masu.specs.report import REPORT, Report, manifest_hash, read_report
from masu.specs.summary import summarize

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "README.md"
CONTEXT = 4096
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")
_PROVE = "masu convert without --no-verify proves a package, and records it in report.json"


@dataclass(frozen=True)
class Publication:
    """A package made ready for the Hub.

    Attributes:
        files: paths in the package, which are those in the repository.
        card: text of README.md.
    """

    package: Path
    repo: str
    files: tuple[str, ...]
    card: str


@dataclass(frozen=True)
class Pushed:
    """A package on the Hub.

    Attributes:
        commit: full hash of the commit that holds it.
        url: where to see it.
        removed: files of an earlier package that are no longer part of it.
    """

    repo: str
    commit: str
    url: str
    files: tuple[str, ...]
    removed: tuple[str, ...]


def prepare(
    package: str | Path, repo: str, *, licence: str | None = None, endpoint: str | None = None
) -> Publication:
    """Prove that a package may be published, and write its model card; nothing is uploaded.

    Args:
        repo: where it shall go, `org/name`.
        licence: of the model; by default what the card of its source on the Hub says.

    Raises:
        PackageError: there is no package, or its bytes are not those of its manifest.
        VerdictError: its report does not prove it: none, of another manifest, or not passed.
        RequestError: `repo` is no name, or the licence is not known.
        SourceError: the source's licence cannot be asked for.
    """
    folder = Path(package)
    if split_hub_name(repo) != (repo, None):
        raise RequestError(f"{repo!r} is no name of a repository", hint="expected org/name")
    if licence is not None and _LICENCE.fullmatch(licence) is None:
        raise RequestError(
            f"licence: expected an identifier, found {licence!r}",
            hint="one word in small letters, as the Hub lists them: apache-2.0, llama3.1, other",
        )
    problems = damage(check_package(folder))
    if problems:
        raise IntegrityError(f"{folder} is damaged, so it is not published", problems=problems)
    opened = Package.open(folder)
    manifest, report = _proven(folder, opened.manifest)
    summary = summarize(
        opened.config, opened.formats, opened.dtype, opened.dialect.planes, context=CONTEXT
    )
    told = _licence_of_source(manifest, endpoint) if licence is None else Licence(licence)
    files = (path for path in folder.rglob("*") if path.is_file())
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    ours = tuple(name for name in names if name.partition("/")[0] in PACKAGE_FILES)
    return Publication(folder, repo, ours, model_card(repo, manifest, report, summary, told))


def push(
    package: str | Path,
    repo: str,
    *,
    licence: str | None = None,
    private: bool = False,
    endpoint: str | None = None,
    on_event: OnEvent | None = None,
) -> Pushed:
    """Publish a package: one commit on `main`, with a model card as README.md.

    The repository is made if there is none. Afterwards it holds this package; files that belong to
    no package stay.

    Args:
        private: whether a new repository is visible to its owner only.
        endpoint: address of the Hub; None means huggingface_hub's own (HF_ENDPOINT).

    Raises:
        PackageError, VerdictError, RequestError, SourceError: as `prepare`; nothing was sent.
        OutputError: the Hub refuses it, or the transfer failed; then no file has changed there.
    """
    from huggingface_hub import HfApi

    ready = prepare(package, repo, licence=licence, endpoint=endpoint)
    if on_event is not None:
        on_event(Event("push", 0, 0, f"{len(ready.files)} files to {repo}"))
    with _publishing(repo):
        api = HfApi(endpoint)
        api.create_repo(repo, private=private, exist_ok=True)
        return _commit(api, ready)


def _commit(api: "HfApi", ready: Publication) -> Pushed:
    """Everything in one commit; refused if somebody else has written meanwhile."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    info = api.model_info(ready.repo, revision="main")
    there = [sibling.rfilename for sibling in info.siblings or ()]
    ours = {name for name in there if name.partition("/")[0] in PACKAGE_FILES}
    removed = tuple(sorted(ours - set(ready.files)))
    commit = api.create_commit(
        ready.repo,
        [
            *(CommitOperationAdd(name, ready.package / name) for name in ready.files),
            CommitOperationAdd(CARD, ready.card.encode()),
            *(CommitOperationDelete(name) for name in removed),
        ],
        commit_message="A package, written and verified by masu",
        parent_commit=info.sha,
    )
    return Pushed(ready.repo, commit.oid, commit.commit_url, ready.files, removed)


def _proven(folder: Path, manifest: Manifest | None) -> tuple[Manifest, Report]:
    if manifest is None:
        raise VerdictError(f"{folder} has no {MANIFEST}, so nothing can be proven of it")
    report = read_report(folder)
    if report is None:
        raise VerdictError(f"{folder} is not verified: it has no {REPORT}", hint=_PROVE)
    if report.manifest != manifest_hash(folder):
        raise VerdictError(
            f"{folder} is not verified: its {REPORT} is about another package",
            problems=[f"manifest: expected {manifest_hash(folder)}, found {report.manifest}"],
            hint=_PROVE,
        )
    if report.verdict is None:
        raise VerdictError(f"{folder} is not verified: its {REPORT} has no verdict", hint=_PROVE)
    if not report.verdict.passed:
        raise VerdictError(f"{folder} has failed its verdict, so it is not published")
    return manifest, report


def _licence_of_source(manifest: Manifest, endpoint: str | None) -> Licence:
    """What the card of the very commit says that was converted."""
    from huggingface_hub import HfApi

    source = manifest.source
    if source.kind != "hub" or source.name is None:
        raise _unknown_licence("its source is not on the Hub")
    with hub_errors(source.name, source.revision or "main", offline=False):
        card = HfApi(endpoint).model_info(source.name, revision=source.revision).card_data
    if card is None or not card.get("license"):
        raise _unknown_licence(f"the card of {source.name} names none")
    return Licence(card["license"], card.get("license_name"), card.get("license_link"))


def _unknown_licence(reason: str) -> RequestError:
    return RequestError(
        f"the licence of the model is not known: {reason}",
        hint="--license ID says it, such as apache-2.0; the source's licence binds the package too",
    )


@contextmanager
def _publishing(repo: str) -> Iterator[None]:
    """What goes wrong while writing to the Hub is no fault of a source."""
    try:
        with hub_errors(repo, "main", offline=False):
            yield
    except SourceError as error:
        status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
        log_in = "log in with `hf auth login`, as an account that may write there"
        again = "check the network, then run it again; until then nothing has changed there"
        hint = log_in if status in (401, 403) else again
        raise OutputError(f"cannot publish {repo}: {error.message}", hint=hint) from error
