"""The built page. Files are found in a listing; an address is never joined to a path."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response

from midstep.server.problems import not_found

STATIC = Path(__file__).parent / "static"
CLIENT_ROUTES = ("live", "explorer", "runs", "influence", "reports", "data")
"""First parts of the addresses that the page handles itself; each is answered with the page."""

# Names in assets/ contain a hash of their content, so a browser may keep them for ever.
IMMUTABLE = "public, max-age=31536000, immutable"
_TYPES = {".js": "text/javascript", ".woff2": "font/woff2", ".svg": "image/svg+xml"}
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>midstep</title>
<body><h1>The page is not built</h1>
<p>The server runs, but this installation has no page. In a source tree, build it with
<code>make dev</code>, or <code>npm ci &amp;&amp; npm run build</code> in <code>dashboard/</code>,
then load this address again. <code>midstep ctl</code> and <code>midstep.Client</code> work
without it.</p></body></html>
"""


def is_page_path(path: str) -> bool:
    """Whether an address belongs to the page, which is open without a token.

    >>> is_page_path("/live"), is_page_path("/api/v1/runs"), is_page_path("/debug/state")
    (True, False, False)
    """
    first, _, rest = path.removeprefix("/").partition("/")
    if first == "assets":
        return bool(rest)
    return first in CLIENT_ROUTES or ("." in first and not rest) or path == "/"


class PageFiles:
    """The files of the page, listed again when a requested one is missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Path] = {}

    def get(self, name: str) -> Path | None:
        """The file of this relative name; None if the page has no such file."""
        path = self._files.get(name)
        if path is None or not path.is_file():  # the page may have been built again
            self._list()
        return self._files.get(name)

    def _list(self) -> None:
        # Links are left out: they could lead to files outside of the page.
        self._files = {
            path.relative_to(self.folder).as_posix(): path
            for path in self.folder.rglob("*")
            if path.is_file() and not path.is_symlink()
        }


def add_page(app: FastAPI, folder: Path) -> None:
    """Serve the built page in `folder`. Other addresses stay a 404."""
    files = PageFiles(folder)

    def page(request: Request) -> Response:
        return _answer(files, request.url.path.removeprefix("/"))

    # No catch-all route: an unknown address below /api must stay a 404 for every method.
    subpaths = (f"/{first}/{{rest:path}}" for first in ("assets", *CLIENT_ROUTES))
    for address in ("/", "/{name}", *subpaths):
        app.add_api_route(address, page, methods=["GET", "HEAD"], include_in_schema=False)


def _answer(files: PageFiles, name: str) -> Response:
    path = files.get(name)
    if path is not None and name != "index.html":
        return _file(path, IMMUTABLE if name.startswith("assets/") else "no-cache")
    first = name.partition("/")[0]
    if first not in (*CLIENT_ROUTES, "", "index.html"):
        raise not_found()
    index = files.get("index.html")
    if index is None:
        return HTMLResponse(_MISSING, status_code=503, headers={"cache-control": "no-store"})
    return _file(index, "no-cache")


def _file(path: Path, cache: str) -> Response:
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return Response(
        path.read_bytes(),
        media_type=kind or "application/octet-stream",
        headers={"cache-control": cache},
    )
