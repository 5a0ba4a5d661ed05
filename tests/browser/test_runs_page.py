"""The list of many stored runs: filter, groups, order and choice, all of it in the address."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.facts.many_runs import run_folders
from playwright.sync_api import Locator, Page, expect

from midstep.live import serve
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.session import Run
from tests.served import serving_root

pytestmark = pytest.mark.browser

RUNS = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RootServer]:
    """A server over 300 finished runs of four variants."""
    outputs = run_folders(tmp_path_factory.mktemp("many") / "outputs", RUNS, epochs=3)
    with RootServer(RootServerConfig(outputs=outputs, port=0)) as made:
        yield made


def open_runs(page: Page, server: RootServer, query: str = "") -> None:
    base, _, token = server.url.partition("/#")
    page.goto(f"{base}/runs{query}#{token}")
    expect(rows(page).first).to_be_visible()


def rows(page: Page) -> Locator:
    return page.get_by_role("grid", name="Runs").locator("[role=row][id]")


def panel(page: Page) -> Locator:
    return page.get_by_role("region", name="Runs", exact=True)


def listed(page: Page, folder: Path) -> list[dict[str, str]]:
    """What the table lists, through its own export."""
    page.get_by_role("button", name="Export runs").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("CSV")).click()
    target = folder / "runs.csv"
    download.value.save_as(target)
    with target.open() as file:
        return list(csv.DictReader(file))


def test_where_no_run_is_live_one_arrives_at_the_list_and_sees_all_of_its_columns(
    page: Page, server: RootServer
) -> None:
    page.goto(server.url)
    expect(page).to_have_url(re.compile(r"/runs$"))
    expect(page).to_have_title("Runs · midstep")
    expect(rows(page).first).to_be_visible()
    grid = page.get_by_role("grid", name="Runs").element_handle()
    page.wait_for_function("grid => grid.scrollWidth <= grid.clientWidth", arg=grid)


def test_a_link_that_names_no_page_keeps_the_rest_of_what_it_says(
    page: Page, tmp_path: Path
) -> None:
    with serving_root(tmp_path) as served:
        page.goto(f"{served.url}/?theme=dark&tab=features#token={served.tokens.control}")
        expect(page).to_have_url(f"{served.url}/live?theme=dark&tab=features")
        expect(page.get_by_role("tab", name="Features")).to_have_attribute("aria-selected", "true")


def test_a_part_whose_code_does_not_arrive_leaves_the_page_as_it_is(
    page: Page, tmp_path: Path
) -> None:
    page.route("**/assets/ShortcutsDialog-*.js", lambda route: route.abort())
    with serving_root(tmp_path) as served:
        page.goto(f"{served.url}/runs#token={served.tokens.control}")
        expect(page.get_by_role("button", name="New run")).to_be_visible()
        page.keyboard.press("?")
        messages = page.get_by_role("region", name="Messages")
        expect(messages).to_contain_text("This dialog could not be opened.")
        page.get_by_role("button", name="New run").click()
        expect(page.get_by_role("dialog", name="New run")).to_be_visible()


def test_a_header_part_whose_code_does_not_arrive_is_left_out(page: Page, tmp_path: Path) -> None:
    page.route("**/assets/OtherLoss-*.js", lambda route: route.abort())
    with serving_root(tmp_path) as served:
        with page.expect_event("requestfailed", lambda request: "OtherLoss" in request.url):
            page.goto(f"{served.url}/#token={served.tokens.control}")
        header = page.get_by_role("banner")
        expect(header.get_by_text("Loss")).to_have_count(0)
        expect(header).to_contain_text(re.compile(r"Step\s*0"))


def test_a_folder_without_runs_offers_to_start_one(page: Page, tmp_path: Path) -> None:
    with RootServer(RootServerConfig(outputs=tmp_path / "outputs", port=0)) as empty:
        page.goto(empty.url)
        expect(panel(page)).to_contain_text("No runs yet")
        page.get_by_role("button", name="New run").click()
        start = page.get_by_role("dialog", name="New run").get_by_role("button", name="Start run")
        expect(start).to_be_enabled()


def test_keys_on_the_list_do_not_move_a_run_that_is_not_on_the_screen(
    page: Page, tmp_path: Path
) -> None:
    with serving_root(tmp_path) as served:
        page.goto(f"{served.url}/#token={served.tokens.control}")
        expect(page).to_have_url(re.compile("/live"))
        expect(page.get_by_role("button", name="Resume")).to_be_enabled()
        page.get_by_role("link", name="Runs").click()
        expect(rows(page)).to_have_count(1)
        for key in ("ArrowRight", " ", "j"):
            page.keyboard.press(key)
        expect(page).to_have_url(re.compile("at="))
        page.get_by_role("link", name="Live").click()
        expect(page.get_by_role("button", name="Resume")).to_be_enabled()
        assert served.run.controller.get_state()["step"] == 0


def measures(page: Page) -> list[str]:
    return page.get_by_role("menu").locator("[role^=menuitem] .font-mono").all_inner_texts()


def test_what_is_measured_while_its_menu_is_open_moves_no_entry(page: Page, tmp_path: Path) -> None:
    with (
        Run(name="grows", save_dir=tmp_path, on_error="raise") as run,
        serve(run, port=0, save_dir=tmp_path) as made,
    ):

        def step(**measured: float) -> None:
            run.log(loss=1.0, **measured)
            run.controller.wait_if_paused()

        run.controller.boundary.enter()
        step()
        page.goto(str(made.url).replace("/#", f"/runs?show={run.run_id}#"))
        opener = page.get_by_role("button", name="Metric: Loss")
        opener.click()
        assert measures(page) == ["loss"]
        while run.step < 42:
            step(accuracy=0.5)
        expect(rows(page).first).to_contain_text("42")
        assert measures(page) == ["loss"]
        page.keyboard.press("Escape")
        opener.click()
        assert measures(page) == ["accuracy", "loss"]


def test_a_filter_is_a_chip_in_the_address_and_a_copied_link_shows_the_same(
    page: Page, server: RootServer, tmp_path: Path
) -> None:
    open_runs(page, server)
    expect(panel(page)).to_contain_text(str(RUNS))
    field = page.get_by_role("textbox", name="Filter runs")
    field.fill("variant=novelty trainer.lr<0.001 ")
    field.press_sequentially("bench")
    expect(page.get_by_role("button", name=re.compile("Remove filter"))).to_have_count(2)
    expect(panel(page)).to_contain_text(f"75 of {RUNS} match")
    page.get_by_role("columnheader", name="Best val loss").get_by_role("button").click()
    found = listed(page, tmp_path)
    losses = [float(row["summary.best_val_loss"]) for row in found]
    assert len(losses) == 75
    assert losses == sorted(losses)

    copied = page.context.new_page()
    copied.goto(page.evaluate("location.href") + "#" + server.url.partition("#")[2])
    expect(panel(copied)).to_contain_text(f"75 of {RUNS} match")
    assert [row["id"] for row in listed(copied, tmp_path)] == [row["id"] for row in found]
    copied.close()
    page.get_by_role("button", name="Remove filter variant novelty").click()
    expect(panel(page)).to_contain_text(f"150 of {RUNS} match")


def test_groups_have_mean_and_spread_and_can_be_folded(page: Page, server: RootServer) -> None:
    open_runs(page, server)
    page.get_by_role("button", name="Group", exact=True).click()
    page.get_by_role("menuitemcheckbox", name="variant").click()
    group = page.get_by_role("row").filter(has=page.get_by_role("button", name="Group control"))
    expect(group).to_contain_text("75 runs")
    expect(group).to_contain_text(re.compile(r"0\.\d+ ± 0\.\d+"))
    page.get_by_role("button", name="Group control").click()
    expect(page.get_by_role("button", name="Group gating")).to_be_visible()
    expect(page).to_have_url(re.compile("closed=control"))


def test_keys_walk_choose_and_open_also_far_down_the_list(page: Page, server: RootServer) -> None:
    open_runs(page, server, "?show=none&sort=name")
    expect(page.get_by_text("0 selected")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("2 selected")).to_be_visible()
    chart = page.get_by_role("region", name="Curves").get_by_role("img")
    expect(chart).to_have_accessible_name(re.compile("of 2 runs, .*bench-0, bench-2"))
    page.get_by_role("button", name="Config diff").click()
    diff = page.get_by_role("region", name="Config diff")
    expect(diff).to_contain_text("control")
    expect(diff).to_contain_text("gating")

    grid = page.get_by_role("grid", name="Runs")
    grid.focus()
    grid.press("End")
    expect(rows(page).filter(has_text=f"bench-{RUNS - 1}")).to_be_visible()
    assert rows(page).count() < 100
    grid.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/0+299"))
    expect(page.get_by_role("region", name="Config")).to_contain_text("variant")
    page.get_by_role("link", name="All runs").click()
    expect(rows(page).first).to_be_visible()
