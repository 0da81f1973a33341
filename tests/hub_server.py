"""A stand-in for the Hugging Face Hub on 127.0.0.1: what huggingface_hub asks of it, and no more.

It serves whole files over plain HTTP, with ranges; no response names Xet storage. Weights are
listed and taken by git-lfs, of which `basic` transfers are spoken; other files stand in the commit.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_stand_in"
"""What opens gated repositories, and lets its owner write."""

_INFO = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?")
_TREE = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/tree/(?P<revision>.+)")
_PREUPLOAD = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/preupload/(?P<revision>.+)")
_COMMIT = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/commit/(?P<revision>.+)")
_LARGE = re.compile(r"/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
_UPLOAD = re.compile(r"/lfs/(?P<sha256>[0-9a-f]{64})")
_FRONT_MATTER = re.compile(r"---\n(.*?)\n---\n", re.S)
_WRITING = (_PREUPLOAD, _COMMIT, _LARGE)
_FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


@dataclass
class Repository:
    """Commits by their hashes, each a whole set of files; branches and tags name commits."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False

    def commit(self, files: dict[str, bytes], ref: str = "main") -> str:
        """Add a commit and move a branch to it."""
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[digest] = files
        self.refs[ref] = digest
        return digest

    def resolve(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.refs.get(revision)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    range: str | None


class HubServer:
    """The server, running between `with` and its end.

    Attributes:
        repositories: what it serves, by `org/name`.
        requests: every request so far.
        cut: paths of files whose next GET breaks off in the middle; each is cut once.
        failing: paths of files that are answered with status 500.
        damaged: paths of files whose next GET has its last byte changed; each once.
        on_request: called before each request is answered.
    """

    def __init__(self) -> None:
        self.clear()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def clear(self) -> None:
        """As if it had just been started."""
        self.repositories: dict[str, Repository] = {}
        self.requests: list[Request] = []
        self.cut: set[str] = set()
        self.failing: set[str] = set()
        self.damaged: set[str] = set()
        self.large: dict[str, bytes] = {}
        self.on_request: Callable[[Request], None] = lambda request: None

    def add(self, repo: str, files: dict[str, bytes]) -> str:
        """A new repository with one commit on `main`; its hash."""
        self.repositories[repo] = Repository()
        return self.repositories[repo].commit(files)

    def fetched(self) -> list[str]:
        """Names of the files whose contents were asked for."""
        gets = [_FILE.fullmatch(r.path) for r in self.requests if r.method == "GET"]
        return [match["file"] for match in gets if match is not None]


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 2**16  # head and body leave together; apart, each answer waits 40 ms

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            request = Request(self.command, path, self.headers.get("Range"))
            hub.requests.append(request)
            hub.on_request(request)
            for pattern, answer in (
                (_TREE, self.tree),
                (_INFO, self.info),
                (_FILE, self.file),
            ):
                match = pattern.fullmatch(path)
                if match is not None:
                    return self.find(match, answer)
            return self.fail(404, "NotFound")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(Request("POST", path, None))
            if path == "/api/validate-yaml":
                return self.answer({"errors": [], "warnings": []})
            token = self.headers.get("Authorization")
            if token != f"Bearer {TOKEN}":
                return self.fail(401 if token is None else 403, "Forbidden")
            if path == "/api/repos/create":
                return self.create(json.loads(body))
            match = next(filter(None, (p.fullmatch(path) for p in _WRITING)), None)
            if match is None or match["repo"] not in hub.repositories:
                return self.fail(404, "RepoNotFound")
            if match.re is _PREUPLOAD:
                return self.preupload(json.loads(body)["files"])
            if match.re is _LARGE:
                return self.batch(json.loads(body)["objects"])
            return self.commit(match, [json.loads(line) for line in body.splitlines()])

        def create(self, wanted: dict[str, str]) -> None:
            repo = f"{wanted['organization']}/{wanted['name']}"
            exists = repo in hub.repositories
            if not exists:
                hub.add(repo, {".gitattributes": b""})
            self.answer({"url": f"{hub.endpoint}/{repo}"}, 409 if exists else 200)

        def preupload(self, files: list[dict[str, str]]) -> None:
            names = [file["path"] for file in files]
            modes = ["lfs" if _is_large(name) else "regular" for name in names]
            pairs = zip(names, modes, strict=True)
            self.answer({"files": [
                {"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in pairs
            ]})  # fmt: skip

        def batch(self, objects: list[dict[str, Any]]) -> None:
            """Where each object is to be sent."""
            self.answer({"transfer": "basic", "objects": [
                {**each, "actions": {"upload": {"href": f"{hub.endpoint}/lfs/{each['oid']}"}}}
                for each in objects
            ]})  # fmt: skip

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            match = _UPLOAD.fullmatch(self.path)
            if match is None or hashlib.sha256(data).hexdigest() != match["sha256"]:
                return self.fail(400, "NotThatObject")
            hub.large[match["sha256"]] = data
            return self.send(b"", {})

        def commit(self, match: re.Match[str], lines: list[dict[str, Any]]) -> None:
            repository = hub.repositories[match["repo"]]
            files = dict(repository.commits[repository.refs[match["revision"]]])
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = hub.large[value["oid"]]
                elif line["key"] == "deletedFile":
                    del files[value["path"]]
            digest = repository.commit(files, match["revision"])
            url = f"{hub.endpoint}/{match['repo']}/commit/{digest}"
            self.answer({"commitUrl": url, "commitOid": digest, "success": True})

        def find(
            self, match: re.Match[str], answer: Callable[[str, str, re.Match[str]], None]
        ) -> None:
            """Answer for the commit that the path names."""
            repository = hub.repositories.get(match["repo"])
            if repository is None:
                return self.fail(401, "RepoNotFound")
            commit = repository.resolve(match["revision"] or "main")
            if commit is None:
                return self.fail(404, "RevisionNotFound")
            return answer(match["repo"], commit, match)

        def info(self, repo: str, commit: str, match: re.Match[str]) -> None:
            names = hub.repositories[repo].commits[commit]
            siblings = [{"rfilename": name} for name in names]
            card = _FRONT_MATTER.match(names.get("README.md", b"").decode())
            data = None if card is None else yaml.safe_load(card[1])
            self.answer({"id": repo, "sha": commit, "siblings": siblings, "cardData": data})

        def answer(self, value: object, status: int = 200) -> None:
            self.send(json.dumps(value).encode(), {}, status=status)

        def tree(self, repo: str, commit: str, match: re.Match[str]) -> None:
            files = hub.repositories[repo].commits[commit]
            self.answer([_listed(name, data) for name, data in files.items()])

        def file(self, repo: str, commit: str, match: re.Match[str]) -> None:
            token = self.headers.get("Authorization")
            if hub.repositories[repo].gated and token != f"Bearer {TOKEN}":
                return self.fail(401 if token is None else 403, "GatedRepo")
            data = hub.repositories[repo].commits[commit].get(match["file"])
            if data is None:
                return self.fail(404, "EntryNotFound", {"X-Repo-Commit": commit})
            if match["file"] in hub.failing and self.command == "GET":
                return self.fail(500, "Broken")
            etag = f'"{_listed(match["file"], data).get("lfs", {"oid": _etag(data)})["oid"]}"'
            if match["file"] in hub.damaged and self.command == "GET":
                hub.damaged.remove(match["file"])
                data = data[:-1] + bytes([data[-1] ^ 1])
            headers = {"ETag": etag, "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            return self.send(data, headers, cut=match["file"])

        def send(
            self, data: bytes, headers: dict[str, str], cut: str = "", status: int = 200
        ) -> None:
            start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if start is None:
                self.send_response(status)
            else:
                self.send_response(206)
                span = f"bytes {start[1]}-{len(data) - 1}/{len(data)}"
                self.send_header("Content-Range", span)
                data = data[int(start[1]) :]
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET" and cut in hub.cut:
                hub.cut.remove(cut)
                self.close_connection = True
                data = data[: len(data) * 2 // 3]
            if self.command != "HEAD":
                self.wfile.write(data)

        def fail(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {"X-Error-Code": code, **(headers or {})}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr: the requests are kept."""

    return Handler


def _is_large(name: str) -> bool:
    return name.endswith(".safetensors")


def _listed(name: str, data: bytes) -> dict[str, Any]:
    """A file in the tree; of a large one git has only a pointer, which nobody asks for here."""
    listed: dict[str, Any] = {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
    if _is_large(name):
        digest = hashlib.sha256(data).hexdigest()
        listed["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
    return listed


def _etag(data: bytes) -> str:
    """git's name of a blob, which is what the Hub lists."""
    return hashlib.sha1(b"blob %d\x00" % len(data) + data).hexdigest()
