"""Texts are whole where there is room, in words that people use, and of the run that is shown."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

import midstep
from midstep.cli.main import main
from midstep.control import DebugController
from midstep.facts import FactsWriter
from midstep.server.root_server import RootServer, RootServerConfig
from tests.facts.stored_runs import write_run

pytestmark = pytest.mark.browser
CUT = "each => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight + 1"


def cut_texts(found: Locator) -> list[str]:
    """The texts that do not fit into their place."""
    return [each.inner_text() for each in found.all() if each.evaluate(CUT)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small net under `attach`, stopped at step 2, with conditions of several words."""
    folder: Path = tmp_path_factory.mktemp("outputs")
    control, url, ready = DebugController(), [], threading.Event()
    control.breakpoints.add_rule("unchanged_weights")
    words = "loss > 2 * val_loss and accuracy < 0.5"
    control.add_breakpoint("expression", expression=words, enabled=False)
    control.add_breakpoint("expression", expression="step == 2 and loss >= 0 and lr <= 0.5")

    def train() -> None:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
        options = {"save_dir": folder, "controller": control, "serve": True, "port": 0}
        with midstep.attach(model, optimizer, loader, **options) as run:
            url.append(run.url)
            ready.set()
            for x in loader:
                loss = model(x).pow(2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)

    thread = threading.Thread(target=train)
    thread.start()
    assert ready.wait(60)
    try:
        yield str(url[0])
    finally:
        control.stop()
        thread.join()


def test_conditions_the_pill_and_heads_of_tables_are_whole(page: Page, live: str) -> None:
    page.goto(live)
    expect(page.get_by_text("Stopped by breakpoint 3", exact=True)).to_be_visible()
    pill = page.get_by_role("status").filter(has_text="Stopped by")
    assert cut_texts(pill.locator("span")) == []
    page.get_by_role("button", name="Step", exact=True).click()
    conditions = page.get_by_role("list", name="Breakpoints").locator("li span[title]")
    expect(conditions).to_have_count(3)
    assert cut_texts(conditions) == []
    layers = page.get_by_role("region", name="Layers")
    heads = layers.get_by_role("columnheader").locator("span.truncate")
    expect(heads.filter(has_text="Update ÷ weight")).to_be_visible()
    assert cut_texts(heads) == []
    heads.filter(has_text="Gradient norm").click()
    assert cut_texts(heads) == []


def test_the_panels_tab_does_not_repeat_the_layers(page: Page, live: str) -> None:
    page.goto(live)
    layers = page.get_by_role("region", name="Layers")
    expect(layers.get_by_role("grid")).to_be_visible()
    page.get_by_role("tab", name="Panels").click()
    expect(page.get_by_text("No further panels")).to_be_visible()
    expect(page.get_by_role("tab", name="Panels")).to_contain_text("0")
    page.get_by_role("tab", name="Step").click()
    layers.get_by_role("button", name="Maximize").click()
    expect(page.get_by_role("listbox", name="Entries of the step data")).to_be_visible()


def test_pages_of_no_run_show_the_step_of_none(page: Page, live: str) -> None:
    page.goto(live)
    expect(page.locator("#fact-step")).to_be_visible()
    for name in ("Influence", "Data"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        expect(page.locator("#fact-step")).to_have_count(0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RootServer]:
    """Four runs that differ in their rate, and an odd one with other settings that diverged."""
    folder: Path = tmp_path_factory.mktemp("many") / "runs"
    for number in range(4):
        settings = {"lr": 0.1 if number < 2 else 0.2, "betas": [0.9], "run_name": f"run {number}"}
        write_run(folder / f"usual{number}", epochs=20, **settings)
    with FactsWriter(folder / "odd") as facts:
        facts.event("on_start", name="odd", config={"project": "p", "betas": [0.1], "lr": 0.1})
        for step in range(1, 101):
            facts.log(step, loss=1.3**step, only_here=1.0)
        facts.event(
            "on_intervention",
            kind="command",
            who="page",
            command="back",
            payload={"n": 3},
            status="done",
            reason=None,
            step=100,
            asked_step=100,
            duration_s=0.1,
            command_seq=1,
            id="a",
        )
        facts.timeline = 1
        facts.event(
            "on_intervention",
            kind="rewind",
            who="page",
            cause="back",
            step=97,
            from_step=100,
            parent=0,
        )
        facts.event(
            "on_intervention",
            kind="diagnosis",
            who="system",
            title="Loss is NaN.",
            cause="First non-finite: input of sample 7 → 0 output",
            samples=[7],
            positions=[1],
            layers=[{"name": "0", "status": "first"}],
            changes=[],
            step=97,
            took_s=0.1,
        )
        facts.event(
            "on_intervention",
            kind="evidence",
            who="system",
            stop="97.t1",
            step=97,
            cause="breakpoint",
            bytes=59_392,
        )
        facts.event("on_train_end", status="finished", step=97)
    with RootServer(RootServerConfig(outputs=folder.parent, port=0)) as server:
        yield server


def test_one_odd_run_takes_neither_the_columns_nor_the_chart(page: Page, runs: RootServer) -> None:
    page.goto(runs.url.replace("/#", "/runs#"))
    table = page.get_by_role("region", name="Runs")
    expect(table.get_by_role("row")).to_have_count(6)
    heads = [each.inner_text() for each in table.get_by_role("columnheader").all()]
    assert "lr" in heads
    assert not {"project", "betas", "run_name", "only_here"} & set(heads)
    curves = page.get_by_role("region", name="Curves")
    curves.get_by_role("button", name=re.compile("^Metric")).click()
    page.get_by_role("menuitemcheckbox", name=re.compile("^Loss")).click()
    expect(curves.get_by_text(re.compile(r"\d+ above, max"))).to_be_visible()


def drag(page: Page, chart: Locator, start: float, stop: float) -> None:
    box = chart.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + stop * box["width"], y, steps=4)
    page.mouse.up()


def span_of(page: Page) -> tuple[float, float] | None:
    found = re.search(r"span=([\d.]+)-([\d.]+)", page.url)
    return None if found is None else (float(found[1]), float(found[2]))


def test_the_chart_of_runs_zooms_moves_and_resets(page: Page, runs: RootServer) -> None:
    page.goto(runs.url.replace("/#", "/runs#"))
    curves = page.get_by_role("region", name="Curves")
    chart = curves.get_by_role("img")
    expect(chart).to_have_attribute("aria-label", re.compile("over step of"))
    drag(page, chart, 0.3, 0.6)
    expect(curves.get_by_role("button", name="Reset zoom")).to_be_visible()
    first = span_of(page)
    assert first is not None
    page.keyboard.down("Shift")
    drag(page, chart, 0.6, 0.5)
    page.keyboard.up("Shift")
    moved = span_of(page)
    assert moved is not None
    assert moved[0] > first[0]
    assert moved[1] - moved[0] == pytest.approx(first[1] - first[0], abs=1.5)
    curves.get_by_role("button", name="Reset zoom").click()
    assert span_of(page) is None


def test_events_and_timelines_are_said_in_words(page: Page, runs: RootServer) -> None:
    page.goto(runs.url.replace("/#", "/runs#"))
    page.get_by_role("link", name="odd").first.click()
    page.get_by_role("tab", name="Events").click()
    events = page.get_by_role("log", name="Events of the run")
    expect(events).to_contain_text("3 steps · 100 ms")
    expect(events).to_contain_text("from step 100 to step 97 · by Back · timeline 2 begins")
    expect(events).to_contain_text("Loss is NaN. First non-finite: input of sample 7 → 0 output")
    expect(events).to_contain_text("stop at step 97 of timeline 2 kept, 58 KiB")
    assert re.search(r'[{}"]|payload|command seq|positions|t1', events.inner_text()) is None
    page.get_by_role("tab", name="Timelines").click()
    expect(page.get_by_text("Timeline 1")).to_be_visible()
    expect(page.get_by_text("Timeline 2")).to_be_visible()
    expect(page.get_by_text("Timeline 0")).to_have_count(0)


def test_epochs_count_from_one_in_table_filter_events_and_terminal(
    page: Page, runs: RootServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The records count the twenty epochs from 0 to 19."""
    page.goto(runs.url.replace("/#", "/runs?columns=epoch&where=epoch%3D20#"))
    table = page.get_by_role("region", name="Runs")
    expect(table.get_by_role("columnheader", name="Epoch")).to_be_visible()
    rows = table.get_by_role("row").filter(has_text="usual0")
    expect(rows.get_by_role("gridcell", name="20", exact=True)).to_be_visible()
    expect(table.get_by_role("row")).to_have_count(5)
    page.get_by_role("link", name="usual0").first.click()
    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_role("log", name="Events of the run")).to_contain_text("epoch 20 · train")
    folder = runs.config.outputs / "runs"
    assert main(["runs", "tail", "usual0", "--lines", "2", "--save-dir", str(folder)]) == 0
    assert "epoch 20 · step 100" in capsys.readouterr().out
