"""A package index on this machine."""

import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

BIRDS_POINTS = "[forge]\nbirds = forge_tools_birds\n"


@dataclass
class PackageIndex:
    """An index as PEP 691 describes it; tests may change what it lists and serves."""

    pages: dict[str, dict[str, object]] = field(default_factory=dict)
    content: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, *versions: str, entry_points: str = "", **more: object) -> None:
        """List the versions of a package, a day apart, each with a wheel."""
        page = self.pages.setdefault(name, {"name": name, "files": []})
        files = page["files"]
        assert isinstance(files, list)
        for version in versions:
            file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
            self.content[file] = wheel(name, version, entry_points)
            digest = sha256(self.content[file]).hexdigest()
            moment = f"2026-10-{len(files) + 1:02}T10:00:00Z"
            row = {"filename": file, "url": f"../../files/{file}", "hashes": {"sha256": digest}}
            files.append({**row, "upload-time": moment, **more})


def wheel(name: str, version: str, entry_points: str) -> bytes:
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    files: Mapping[str, str] = {
        f"{folder}/METADATA": f"Name: {name}\nVersion: {version}\nAuthor-email: Wren <w@birds.example>\n",
        f"{folder}/entry_points.txt": entry_points,
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return written.getvalue()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """Serve an index, which pip and forge are told of."""
    served = PackageIndex()
    served.add("forge-tools-birds", "2", "3", entry_points=BIRDS_POINTS)
    served.add("requests", "5")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, name = self.path.strip("/").split("/")
            body = None
            if kind == "files":
                body = served.content.get(name)
            elif name in served.pages:
                body = json.dumps(served.pages[name]).encode()
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:hunter2@127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield served
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
