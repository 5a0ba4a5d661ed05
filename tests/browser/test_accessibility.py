"""No serious finding of axe on any page, in both themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from midstep.server.datasets.data_roots import DataRoots
from tests.browser.conftest import Demo
from tests.browser.test_live_page import button, expect_step
from tests.browser.test_many_runs import go_to
from tests.influence.stored import store_result
from tests.served import Served, serving
from tests.server.datasets import store_dataset

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = ("serious", "critical")
THEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


def assert_nothing_serious(page: Page) -> None:
    """Run axe on what the page shows now."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text())
    violations: list[dict[str, Any]] = page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
    )
    findings = {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]]
        for violation in violations
        if violation["impact"] in SERIOUS
    }
    assert findings == {}, page.url


@THEMES
def test_pages_of_a_run(page: Page, demo: Demo, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(demo.url)
    expect_step(page, 0)
    assert_nothing_serious(page)  # nothing is captured yet
    button(page, "Step").click()
    expect(page.get_by_role("region", name="Batch").get_by_role("grid")).to_be_visible()
    expect(page.get_by_role("region", name="Metrics")).to_be_visible()
    assert_nothing_serious(page)
    shown = {"Charts": "loss", "Features": "Cosine similarity", "Panels": "Metrics"}
    for tab, region in shown.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("region", name=region, exact=True)).to_be_visible()
        assert_nothing_serious(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert_nothing_serious(page)
    page.keyboard.press("Escape")
    go_to(page, "Runs")
    expect(page.get_by_role("region", name="Runs")).to_be_visible()
    assert_nothing_serious(page)
    page.get_by_role("region", name="Runs").get_by_role("link").first.click()
    expect(page.get_by_role("tab", name="Overview")).to_be_visible()
    expect(page.get_by_role("region", name="Config")).to_be_visible()
    assert_nothing_serious(page)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Served]:
    """A server with a dataset and a result of influence."""
    dataset = store_dataset(tmp_path / "data" / "small")
    store_result(tmp_path, tmp_path / "influence")
    with serving(tmp_path / "runs", datasets=DataRoots(dataset.parent)) as served:
        yield served


@THEMES
def test_pages_of_stored_data(page: Page, stored: Served, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{stored.url}/data#token={stored.tokens.viewer}")
    expect(page.get_by_role("region", name="Pair 0", exact=True)).to_be_visible()
    assert_nothing_serious(page)
    go_to(page, "Influence")
    expect(page.get_by_role("region", name="Coverage")).to_be_visible()
    assert_nothing_serious(page)


def test_a_link_without_a_token(page: Page, stored: Served) -> None:
    page.goto(stored.url)
    expect(page.get_by_role("main")).to_be_visible()
    assert_nothing_serious(page)
