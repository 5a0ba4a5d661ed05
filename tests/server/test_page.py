from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.runs.run_table import RunTable

BASE = "http://127.0.0.1:8765"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>midstep</title>")
    (tmp_path / "assets" / "index-abc123.js").write_text("export {}")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    return tmp_path


class Page:
    """The app over one bundle, asked without a network and without a token."""

    def __init__(self, folder: Path) -> None:
        guard = GuardConfig(tokens=Tokens.fresh())
        self.app = create_app(RunTable(), guard=guard, static=folder)

    def get(self, address: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.get(address)

        return asyncio.run(ask())


def page(folder: Path) -> Page:
    return Page(folder)


@pytest.mark.parametrize("address", ["/", "/index.html", "/live", "/runs/abc", "/live/step?x=1"])
def test_page_addresses_give_the_index_and_are_never_cached(bundle, address):
    answer = page(bundle).get(address)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"].startswith("text/html")


def test_hashed_assets_are_kept_for_good(bundle):
    answer = page(bundle).get("/assets/index-abc123.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert page(bundle).get("/favicon.svg").headers["cache-control"] == "no-cache"


def test_unknown_files_are_404_and_never_the_index(bundle):
    for address in ("/assets/none.js", "/none.txt", "/assets/"):
        assert page(bundle).get(address).status_code in (401, 404)


def test_a_link_out_of_the_bundle_is_not_followed(bundle, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("secret")
    (bundle / "assets" / "link.txt").symlink_to(secret)
    assert page(bundle).get("/assets/link.txt").status_code == 404


def test_a_missing_bundle_says_how_to_build_it(tmp_path):
    answer = page(tmp_path / "none").get("/")
    assert answer.status_code == 503
    assert "make dev" in answer.text
    assert "npm" in answer.text


def test_a_bundle_built_later_is_seen(tmp_path):
    client = page(tmp_path)
    assert client.get("/").status_code == 503
    (tmp_path / "index.html").write_text("built")
    assert client.get("/").text == "built"
