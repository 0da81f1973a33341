"""What huggingface_hub's exceptions mean for somebody who wants to convert a repository."""

from collections.abc import Iterator
from contextlib import contextmanager

from masu.specs.errors import MasuError, SourceError, SourceNotFound
from masu.specs.models import did_you_mean

_LOG_IN = "log in with `hf auth login`, as an account that may read it"
_ONLINE_FIRST = "run once without --offline, which fills the cache"


@contextmanager
def hub_errors(repo: str, revision: str, *, offline: bool) -> Iterator[None]:
    """Turn every exception of the calls inside into a SourceError that says what to do.

    Args:
        revision: what was asked for, for messages.
    """
    try:
        yield
    except MasuError:
        raise
    except Exception as error:  # huggingface_hub's own have no base class, its HTTP client's differ
        explained = _not_found(error, repo, revision, offline) or _refused(error, repo)
        raise explained or _broken(error, repo) from error


def _not_found(error: Exception, repo: str, revision: str, offline: bool) -> SourceError | None:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return None  # a kind of RepositoryNotFoundError
    if isinstance(error, errors.HFValidationError):
        return SourceNotFound(f"{repo!r} is no name of a Hub repository: {error}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return SourceNotFound(
            f"the Hub has no repository {repo}, or does not show it to you",
            hint=f"{did_you_mean(repo)}check the spelling; if it is private, {_LOG_IN}",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        hint = "name a branch, a tag, or the full hash of a commit"
        return SourceNotFound(f"{repo} has no revision {revision!r}", hint=hint)
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return SourceNotFound(f"{repo} at {revision} lacks a file: {error.response.url.path}")
    in_cache = (errors.LocalEntryNotFoundError, errors.RevisionResolutionError)
    if offline and isinstance(error, in_cache):
        return SourceNotFound(
            f"{repo} at {revision} is not completely in the cache: {_first_line(error)}",
            hint=_ONLINE_FIRST,
        )
    return None


def _refused(error: Exception, repo: str) -> SourceError | None:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return SourceError(
            f"{repo} is gated, and your account has not been given access",
            hint=f"accept its terms at https://huggingface.co/{repo}, then {_LOG_IN}",
        )
    if isinstance(error, errors.DisabledRepoError):
        return SourceError(f"the Hub has disabled {repo}")
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        return SourceError(
            f"the Hub refuses access to {repo} (status {error.response.status_code})", hint=_LOG_IN
        )
    return None


def _broken(error: Exception, repo: str) -> SourceError:
    """Everything else: the Hub, the network or the disk failed."""
    from huggingface_hub import errors

    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        return SourceError(f"the Hub answers {status} for {repo}", hint="try again later")
    cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else None
    failure = cause if isinstance(cause, Exception) else error
    return SourceError(
        f"{repo} could not be fetched: {type(failure).__name__}: {_first_line(failure)}",
        hint="check network and disk, then run it again: files that are complete are kept;"
        " --offline uses what the cache holds",
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
