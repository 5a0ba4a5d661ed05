"""Names that are markup, formulas or traps: the page shows them as text and does nothing else."""

from __future__ import annotations

import csv
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from midstep.control import DebugController, Panel
from midstep.facts.index.labels import write_labels
from midstep.live import serve
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.session import Run
from tests.browser.test_live_page import button
from tests.facts.stored_runs import write_run
from tests.server.datasets import store_dataset

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=alert(1)>"
FORMULA = '=HYPERLINK("http://x","y")'
ODD = [MARKUP, FORMULA, "__proto__", "constructor", "\u202egnp.exe\u202c", "a,b"]


@contextmanager
def odd_loop(run: Run) -> Iterator[None]:
    """A loop on a thread of this process that calls everything by an odd name."""
    thread = threading.Thread(target=train, args=(run,), name="training")
    thread.start()
    try:
        yield
    finally:
        run.controller.stop()
        thread.join(60)


def train(run: Run) -> None:
    controller = run.controller
    going, step = controller.boundary.enter(), 0
    while going:
        batch = torch.full((len(ODD), 64), (step % 10) / 10)
        for name in ODD:
            controller.capture_step_data(name, {name: torch.ones(3), "text": name})
        titled = Panel(kind="text", title=f"titled {MARKUP}")
        controller.capture_step_data("titled", f"<script>alert(1)</script>{MARKUP}", panel=titled)
        controller.capture_batch(batch, 1.0, step, labels=ODD)
        run.log(loss=1.0, **{name: float(step) for name in ODD})
        step += 1
        going = controller.wait_if_paused()


@pytest.fixture
def odd_page(page: Page, tmp_path: Path) -> Iterator[Page]:
    """The page of such a run after two steps; a dialog that opens fails the test."""
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    controller = DebugController()
    controller.pause()
    with (
        Run(
            name=MARKUP, save_dir=tmp_path / "runs", controller=controller, on_error="raise"
        ) as run,
        odd_loop(run),
        serve(run, port=0) as served,
    ):
        page.goto(served.url)
        expect(page.get_by_role("banner")).to_contain_text("Paused")
        for step in (1, 2):
            button(page, "Step").click()
            expect(page.get_by_role("banner")).to_contain_text(re.compile(rf"Step\s*{step}(?!\d)"))
        yield page
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("() => Object.keys(Object.prototype)") == []
        page.goto("about:blank")
    assert dialogs == []


def test_a_run_with_markup_for_a_name_is_shown_by_it(odd_page: Page) -> None:
    expect(odd_page.get_by_role("banner")).to_contain_text(MARKUP)
    odd_page.get_by_role("link", name="Runs").first.click()
    expect(odd_page.get_by_role("tabpanel")).to_contain_text(MARKUP)


def test_metrics_of_odd_names_are_chosen_drawn_and_exported(odd_page: Page, tmp_path: Path) -> None:
    for name in ODD:
        odd_page.get_by_role("button", name="Choose a metric").click()
        odd_page.get_by_role("menuitemcheckbox", name=name, exact=True).click()
        expect(odd_page.get_by_role("img", name=f"{name} over steps: 2 points")).to_be_visible()
        odd_page.get_by_role("button", name=f"Export {name}", exact=True).first.click()
        with odd_page.expect_download() as download:
            odd_page.get_by_role("menuitem", name=re.compile("CSV")).click()
        target = tmp_path / "odd.csv"
        download.value.save_as(target)
        with target.open(newline="") as file:
            head, *rows = csv.reader(file)
        assert head[1] == (f"'{name}" if name.startswith("=") else name)
        assert [row[:2] for row in rows] == [["1", "0"], ["2", "1"]]


def test_step_data_under_odd_keys_is_listed_and_opened(odd_page: Page) -> None:
    odd_page.get_by_role("tab", name=re.compile("Panels")).click()
    for name in ODD:
        expect(odd_page.get_by_role("region", name=name, exact=True)).to_be_visible()
    odd_page.get_by_role("button", name=f"Maximize {ODD[0]}", exact=True).click()
    for name in ODD:
        odd_page.get_by_role("option", name=name).click()
        expect(odd_page.get_by_role("region", name=name, exact=True)).to_be_visible()


def test_titles_of_panels_and_their_texts_are_text(odd_page: Page) -> None:
    odd_page.get_by_role("tab", name=re.compile("Panels")).click()
    titled = odd_page.get_by_role("region", name=f"titled {MARKUP}", exact=True)
    expect(titled).to_contain_text(f"<script>alert(1)</script>{MARKUP}")


IS_DRAWN = """canvas => canvas.getContext('2d')
  .getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value !== 0)"""


def test_labels_and_breakpoints_of_odd_names_are_text(odd_page: Page) -> None:
    grid = odd_page.get_by_role("region", name="Batch")
    canvas = grid.locator("canvas").first
    odd_page.wait_for_function(IS_DRAWN, arg=canvas.element_handle())
    canvas.click(position={"x": 5, "y": 5})
    expect(grid).to_contain_text(f"Label {MARKUP}")


GOLDEN = Path(__file__).parents[1] / "golden" / "influence"
SVG = f"""<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="alert(1)">
<script>alert(1)</script><rect width="40" height="40"/><text>{MARKUP.replace("<", "&lt;")}</text>
</svg>"""


@pytest.fixture
def strangers(page: Page, tmp_path: Path) -> Iterator[RootServer]:
    """A run, a dataset and results of somebody else; a dialog that opens fails the test."""
    run = tmp_path / "runs" / "theirs"
    write_run(run, name=MARKUP, lr=MARKUP)
    write_labels(run, tags=[MARKUP], note=f"<script>alert(1)</script>{MARKUP}")
    (run / "figures").mkdir()
    (run / "figures" / "loss-on_epoch_end-e1.svg").write_text(SVG)
    (run / "console.log").write_text(f"\x1b[31m{MARKUP}")
    store_dataset(tmp_path / "data" / "small")
    result = tmp_path / "influence" / "20260101T000000Z_theirs"
    shutil.copytree(next(GOLDEN.iterdir()), result)
    text = (result / "results.json").read_text()
    for name in ('"held out"', '"9-3="', '"7"'):
        text = text.replace(name, json.dumps(f"theirs {MARKUP}"))
    (result / "results.json").write_text(text)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    config = RootServerConfig(outputs=tmp_path, port=0, data=(tmp_path / "data",))
    with RootServer(config) as server:
        yield server
        assert page.locator("img[src=x]").count() == 0
        page.goto("about:blank")
    assert dialogs == []


def open_stored(page: Page, server: RootServer, path: str) -> None:
    page.goto(f"{server.base}{path}#token={server.tokens.now.control}")


def test_a_run_of_a_stranger_with_an_svg_figure_runs_no_script(
    page: Page, strangers: RootServer
) -> None:
    open_stored(page, strangers, "/runs")
    expect(page.get_by_role("tabpanel")).to_contain_text(MARKUP)
    run_id = strangers.app.state.catalog.index.rows().rows[0].id
    open_stored(page, strangers, f"/runs/{run_id}?tab=figures")
    figure = page.get_by_role("region", name="Figures").locator("img").first
    expect(figure).to_be_visible()
    page.wait_for_function("image => image.naturalWidth === 40", arg=figure.element_handle())
    open_stored(page, strangers, f"/runs/{run_id}")
    expect(page.get_by_role("banner")).to_contain_text(MARKUP)
    expect(page.get_by_role("region", name="Tags and note")).to_contain_text(MARKUP)


def test_datasets_and_results_of_a_stranger_are_text(page: Page, strangers: RootServer) -> None:
    open_stored(page, strangers, "/data")
    expect(page.get_by_role("region", name="Pair 0", exact=True)).to_contain_text("<b>bold</b>")
    open_stored(page, strangers, "/influence")
    expect(page.get_by_role("button", name=f"Evaluation theirs {MARKUP}")).to_be_visible()
