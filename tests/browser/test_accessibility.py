"""No serious finding of axe on any page, in both themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import midstep
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.root_server import RootServer, RootServerConfig
from tests.browser.conftest import Demo
from tests.browser.test_culprit_page import stopped_page
from tests.browser.test_live_page import button, expect_step
from tests.browser.test_many_runs import go_to
from tests.influence.stored import store_result
from tests.live.stopped import ImageLoop, stopped
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


def assert_nothing_serious_in_both_themes(page: Page) -> None:
    for scheme in ("light", "dark"):
        # Without transitions: a colour on its way to the other theme has no contrast of its own.
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert_nothing_serious(page)


WALKED = """() => {
  const {activeElement: element} = document;
  return element.getAttribute("aria-label") ?? element.innerText;
}"""


def walked(page: Page, presses: int) -> list[str]:
    """Names of what Tab leads to, one after the other."""
    names = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        names.append(str(page.evaluate(WALKED)))
    return names


def assert_dialog(page: Page, name: str) -> None:
    """Nothing serious, Tab stays in it, and Esc closes it."""
    dialog = page.get_by_role("dialog", name=name)
    expect(dialog).to_be_visible()
    assert_nothing_serious_in_both_themes(page)
    is_outside = "() => !document.activeElement.closest('dialog, body:focus, html')"
    for _ in range(3):
        page.keyboard.press("Tab")
        assert not page.evaluate(is_outside)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_stop_with_its_diagnosis_and_the_dialogs_of_a_run(page: Page, tmp_path: Path) -> None:
    with stopped_page(tmp_path) as url:
        page.goto(url)
        layers = page.get_by_role("table", name="Layers in the order they ran")
        expect(layers).to_be_visible()
        expect(page.get_by_role("region", name="Sample 37")).to_be_visible()
        assert_nothing_serious_in_both_themes(page)
        assert {"What changed", "Layers in the order they ran"} <= set(walked(page, 60))
        page.get_by_role("radio", name="Breakpoints 1").click()
        page.get_by_role("region", name="Breakpoints").get_by_role("button", name="Add").click()
        assert_dialog(page, "Add breakpoint")
        page.keyboard.press("Control+k")
        assert_dialog(page, "Search")
        button(page, "Stop").click()
        assert_dialog(page, "Stop")


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[RootServer]:
    """A run that logged media, stopped at a breakpoint with a diagnosis, and has ended."""
    loop = ImageLoop()
    run = midstep.attach(*loop.parts, save_dir=tmp_path / "runs", name="ended")

    def train(opened: Any) -> None:
        opened.log(
            samples=torch.rand(3, 8, 8), poem="of few words", worst=[{"id": 7}], scores=[0.5, 1.0]
        )
        loop.train(opened)

    with stopped(run, train):
        pass
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as server:
        yield server


def test_an_ended_run_its_media_and_a_new_run(page: Page, ended: RootServer) -> None:
    page.goto(ended.url.replace("/#", "/runs#"))
    button(page, "New run").click()
    assert_dialog(page, "New run")
    page.get_by_role("region", name="Runs").get_by_role("link", name="ended").click()
    page.get_by_role("tab", name="Media").click()
    expect(page.get_by_role("region", name="samples, image")).to_be_visible()
    assert_nothing_serious_in_both_themes(page)
    page.get_by_role("button", name="Open panels").click()
    expect(page.get_by_role("region", name="Console")).to_be_visible()
    expect(page.get_by_role("region", name="Breakpoints")).to_contain_text("loss is not finite")
    assert_nothing_serious_in_both_themes(page)
    page.get_by_role("radio", name="Changes").click()
    expect(page.get_by_role("grid", name="What changed")).to_be_visible()
    assert_nothing_serious_in_both_themes(page)
