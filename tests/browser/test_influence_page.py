"""The Influence page on a stored result, and influence of a paused run on the Live page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from midstep.client import Client
from midstep.influence.study.results_file import load_results
from tests.browser.test_rewind_page import expect_step, session_page
from tests.influence.stored import store_result
from tests.served import Served, serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outputs = tmp_path_factory.mktemp("outputs")
    return store_result(outputs, outputs / "influence")


@pytest.fixture
def served(stored: Path) -> Iterator[Served]:
    """A run beside the result; a viewer's link is enough to read it."""
    with serving(stored.parent.parent / "runs") as made:
        yield made


def open_page(page: Page, served: Served, query: str = "", token: str = "viewer") -> None:
    page.goto(f"{served.url}/influence{query}#token={served.secret(token)}")


def panel(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("region", name=name)


def true_minus(text: str) -> float:
    return float(text.replace("\u2212", "-"))


def test_a_stored_result_is_shown_whole(page: Page, served: Served, stored: Path) -> None:
    open_page(page, served)
    held = load_results(stored).request("held")
    most = held.delta["total"].abs().argmax().item()
    name = held.batch.sequence_ids[most]
    moved = panel(page, f"What changed {name}")
    expect(moved).to_contain_text("predicted")
    first = held.contributors[most][0]
    row = moved.get_by_role("row").nth(1)
    expect(row).to_contain_text(first.sequence_id)
    expect(row).to_contain_text(re.compile(r"[+\u2212]0\.\d{4}|e\u2212"))
    expect(panel(page, "Kernel")).to_contain_text("6 × 16")
    expect(panel(page, "Coverage").get_by_role("listitem")).to_have_count(9)
    expect(panel(page, "Predicted and actual")).to_contain_text(re.compile(r"r\s*(0\.9|1\.0)"))
    # The page itself never scrolls at this size.
    assert page.evaluate("document.scrollingElement.scrollHeight <= window.innerHeight")


def test_a_click_on_the_map_selects_a_row_and_its_text(page: Page, served: Served) -> None:
    open_page(page, served)
    kernel = panel(page, "Kernel").get_by_role("img")
    kernel.focus()
    for _ in range(3):
        kernel.press("ArrowDown")
    kernel.press("ArrowRight")
    kernel.press("Enter")
    moved = panel(page, re.compile("^What changed E-"))
    expect(page).to_have_url(re.compile("sequence=E-00"))
    expect(page).to_have_url(re.compile("by=U-000-0"))
    chosen = moved.get_by_role("button", pressed=True)
    expect(chosen).to_have_count(1)
    expect(chosen).to_have_text(re.compile("U-000-0"))
    # Its text stands beside that of the selected sequence.
    expect(moved.locator("p", has_text=re.compile(r"^U-000-0\d · reward"))).to_be_visible()


def test_another_advantage_changes_the_prediction(page: Page, served: Served, stored: Path) -> None:
    results = load_results(stored)
    held = results.request("held")
    name, by = held.batch.sequence_ids[2], held.contributors[2][0].sequence_id
    open_page(page, served, f"?sequence={name}")
    what_if = panel(page, "What if")
    expect(what_if).to_contain_text("preconditioner held fixed")
    field = what_if.get_by_role("textbox", name=f"Advantage of {by} as a number")
    field.fill("0")
    field.press("Enter")
    wanted = held.what_if(results.workspace, {by: 0.0})["total"][2].item()
    figure = what_if.locator("[data-figure=what-if]")
    expect(what_if.get_by_text(f"Without {by}")).to_be_visible()
    assert true_minus(figure.inner_text()) == pytest.approx(wanted, rel=2e-2, abs=1e-4)
    # A copied link shows the same; resetting gives the stored change back.
    page.reload()
    expect(what_if.get_by_text(f"Without {by}")).to_be_visible()
    what_if.get_by_role("button", name="Reset 1").click()
    true = held.delta["total"][2].item()
    expect(what_if.get_by_text("Nothing changed yet")).to_be_visible()
    assert true_minus(figure.inner_text()) == pytest.approx(true, rel=2e-2, abs=1e-4)
    slider = what_if.get_by_role("slider", name=f"Advantage of {by}")
    slider.focus()
    slider.press("ArrowLeft")
    expect(what_if.get_by_role("button", name="Reset 1")).to_be_visible()


def test_batches_tabs_and_results_can_be_chosen(page: Page, served: Served, stored: Path) -> None:
    open_page(page, served)
    page.get_by_role("button", name=re.compile("^Evaluation held")).click()
    page.locator("[role^=menuitem]", has_text="nine").click()
    expect(panel(page, re.compile("^What changed C-"))).to_contain_text("9+9=18")
    page.keyboard.press("]")
    expect(panel(page, "Kernel")).to_contain_text("16 × 16")
    expect(panel(page, re.compile("^What changed U-"))).to_be_visible()
    page.get_by_role("tab", name="Results").click()
    table = panel(page, "Stored results")
    expect(table).to_contain_text(stored.name)
    table.get_by_role("button", name="small study").click()
    expect(panel(page, "Kernel")).to_be_visible()


def test_every_panel_exports_what_it_shows(page: Page, served: Served) -> None:
    open_page(page, served)
    for subject, item, suffix in [
        ("kernel", "CSV", ".csv"),
        ("contributors", "JSON", ".json"),
        ("the check", "CSV", ".csv"),
        ("coverage", "PNG", ".png"),
        ("what if", "JSON", ".json"),
    ]:
        page.get_by_role("button", name=f"Export {subject}").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=item).click()
        assert download.value.suggested_filename.endswith(suffix)
        content = Path(download.value.path()).read_bytes()
        assert len(content) > 100
        if suffix == ".json":
            json.loads(content)


def test_without_results_it_says_what_to_run(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path / "runs") as served:
        open_page(page, served)
        expect(panel(page, "Stored results")).to_contain_text("midstep influence run plan.yaml")
        folder = tmp_path / "influence" / "20260101T000000Z_broken"
        folder.mkdir(parents=True)
        (folder / "results.json").write_text("{")
        page.reload()
        expect(panel(page, "Stored results")).to_contain_text("Damaged")
        page.keyboard.type("gl")
        expect(page).to_have_url(re.compile("/live"))
        page.keyboard.type("gi")
        expect(page).to_have_url(re.compile("/influence"))


def test_a_paused_run_shows_which_samples_moved_which(page: Page, tmp_path: Path) -> None:
    with session_page(tmp_path / "runs") as (_, url):
        page.goto(url)
        expect_step(page, 0)
        expect(page.get_by_role("button", name="Step", exact=True).first).to_be_enabled()
        page.keyboard.press("ArrowRight")
        expect_step(page, 1)
        page.get_by_role("button", name="Influence: which samples changed which losses").click()
        expect(page).to_have_url(re.compile("tab=panels"))
        matrix = panel(page, "Loss of row moved by column")
        expect(matrix).to_contain_text("16 × 16")
        expect(panel(page, re.compile("^Change of each sample"))).to_contain_text("by itself")
        # Asked again at the same step from elsewhere: the page shows the new answer.
        client = Client(url)
        for samples in (5, 9):
            client.command("influence", samples=samples)
            expect(matrix).to_contain_text(f"{samples} × {samples}")
