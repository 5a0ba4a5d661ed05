"""Many runs on one page: started, compared, killed, and followed across a restart of the server."""

from __future__ import annotations

import csv
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tools.demo_process import running_server

from midstep.facts.liveness.run_lock import lock_holder
from tests.browser.test_live_page import button, losses_in_chart, step_shown
from tests.served import keep_port

# A child loads torch and its data, on a machine that may be busy with other things.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(480)]

PATIENCE_S = 90.0
PATIENCE_MS = PATIENCE_S * 1000
AWAY = re.compile("Connection: (Reconnecting|Not responding|.* old)")


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Path]:
    """A folder for runs; those that still live at the end are ended by their process number."""
    folder = tmp_path / "outputs"
    folder.mkdir()
    yield folder
    for run_dir in folder.glob("**/run_*"):
        if pid := lock_holder(run_dir):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    until(lambda: not any(lock_holder(each) for each in folder.glob("**/run_*")))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.05)


def go_to(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()


def start_run(page: Page, name: str, *, steps: int, paused: bool) -> None:
    """New run, from the page; its Live page is open afterwards."""
    go_to(page, "Runs")
    page.get_by_role("button", name="New run").click()
    dialog = page.get_by_role("dialog", name="New run")
    dialog.get_by_role("textbox", name="Name").fill(name)
    dialog.get_by_role("textbox", name="steps").fill(f"{steps:,}")
    if not paused:
        dialog.get_by_role("switch", name="Start paused").click()
    dialog.get_by_role("button", name="Start run").click()
    expect(dialog).to_have_count(0, timeout=PATIENCE_MS)
    expect(page).to_have_url(re.compile(r"/live\?.*run="))
    expect(page.get_by_role("banner")).to_contain_text(name, timeout=PATIENCE_MS)


def row_of(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name="Runs").get_by_role("row").filter(has_text=name)


def open_live(page: Page, name: str) -> None:
    """From the list to the run's page, and from there to Live."""
    go_to(page, "Runs")
    row_of(page, name).get_by_role("link", name=name).click()
    page.get_by_role("button", name=re.compile("Open (live|panels)")).click()


def expect_step(page: Page, step: int) -> None:
    banner = page.get_by_role("banner")
    expect(banner).to_contain_text(re.compile(rf"Step\s*{step:,}\s*/"), timeout=PATIENCE_MS)


def curves_saved(page: Page, folder: Path) -> dict[str, list[float]]:
    """What the curves panel holds, through its own export: steps by run."""
    page.get_by_role("button", name="Export curves").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("CSV")).click()
    target = folder / "curves.csv"
    download.value.save_as(target)
    steps: dict[str, list[float]] = {}
    with target.open() as file:
        for line in csv.DictReader(file):
            steps.setdefault(line["run"], []).append(float(line["step"]))
    return steps


def test_runs_are_started_stepped_compared_killed_and_followed_over_a_restart(
    page: Page, outputs: Path, tmp_path: Path
) -> None:
    # Without a port of its own the second server takes the one that the first had.
    keep_port(outputs)
    with running_server(outputs, tmp_path / "first.log") as url:
        page.goto(url)
        start_run(page, "alpha", steps=1_000_000, paused=True)
        expect(page.get_by_role("banner")).to_contain_text("Paused", timeout=PATIENCE_MS)
        expect_step(page, 0)
        for step in (1, 2):
            button(page, "Step").click()
            expect_step(page, step)
        start_run(page, "beta", steps=1_000_000, paused=False)
        expect(page.get_by_role("banner")).to_contain_text("Running", timeout=PATIENCE_MS)

        open_live(page, "alpha")
        expect(page.get_by_role("banner")).to_contain_text("alpha")
        button(page, "Resume").click()
        expect(page.get_by_role("banner")).to_contain_text("Running", timeout=PATIENCE_MS)

        live = page.context.new_page()
        live.set_default_timeout(PATIENCE_MS)
        live.goto(page.evaluate("location.href") + "#" + url.partition("#")[2])
        expect(live.get_by_role("button", name="Connection: Live")).to_be_visible()

        compare_while_both_train(page, tmp_path)
        kill_and_see_it(page, outputs)

    for each in (page, live):
        expect(each.get_by_role("button", name=AWAY)).to_be_visible(timeout=PATIENCE_MS)
    before = step_shown(live)
    with running_server(outputs, tmp_path / "second.log") as again:
        assert again == url
        expect(live.get_by_role("button", name="Connection: Live")).to_be_visible()
        until(lambda: step_shown(live) > before)
        expect(row_of(page, "alpha")).to_contain_text("Running", timeout=PATIENCE_MS)
        expect(row_of(page, "beta")).to_contain_text("Killed")
        button(live, "Pause").click()
        expect(live.get_by_role("banner")).to_contain_text("Paused")
        expect(row_of(page, "alpha")).to_contain_text("Paused", timeout=PATIENCE_MS)
        last = step_shown(live)
        drawn = re.compile(rf"at step {last:,}\b")
        expect(live.get_by_role("img", name=drawn)).to_be_visible()
        assert [step for step, _ in losses_in_chart(live, tmp_path)] == list(range(1, last + 1))
        stop_it(live)
        expect(row_of(page, "alpha")).to_contain_text("Stopped", timeout=PATIENCE_MS)
        live.close()


def compare_while_both_train(page: Page, folder: Path) -> None:
    """Curves of both runs, twice; both have grown."""
    go_to(page, "Runs")
    for name in ("alpha", "beta"):
        expect(row_of(page, name)).to_contain_text("Running", timeout=PATIENCE_MS)
        expect(row_of(page, name).get_by_role("checkbox")).to_be_checked()
    page.get_by_role("button", name="Metric").click()
    # By key: metrics that come in the meantime move the entries under a pointer.
    page.get_by_role("menuitemcheckbox", name=re.compile("^Loss")).press("Enter")
    chart = page.get_by_role("region", name="Curves").get_by_role("img")
    both = re.compile(r"Loss over step of 2 runs, .*(alpha.*beta|beta.*alpha)")
    expect(chart).to_have_accessible_name(both, timeout=PATIENCE_MS)
    first = {name: max(steps) for name, steps in curves_saved(page, folder).items()}
    assert set(first) == {"alpha", "beta"}

    def both_grew() -> bool:
        now = {name: max(steps) for name, steps in curves_saved(page, folder).items()}
        return all(now.get(name, 0) > first[name] for name in first)

    until(both_grew)


def kill_and_see_it(page: Page, outputs: Path) -> None:
    (run_dir,) = outputs.glob("**/run_*_beta")
    pid = lock_holder(run_dir)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    expect(row_of(page, "beta")).to_contain_text("Killed", timeout=PATIENCE_MS)
    expect(page.get_by_role("banner")).to_contain_text(re.compile(r"1\s*failed or killed"))


def stop_it(live: Page) -> None:
    button(live, "Stop").click()
    dialog = live.get_by_role("dialog")
    expect(dialog).to_contain_text("Stop alpha?")
    expect(dialog.get_by_role("button", name="Keep paused")).to_be_focused()
    dialog.get_by_role("button", name="Stop run").click()
    expect(dialog).to_have_count(0, timeout=PATIENCE_MS)
    expect(live.get_by_role("banner")).to_contain_text("Stopped", timeout=PATIENCE_MS)


def test_a_composed_run_starts_from_its_groups_with_the_config_that_was_shown(
    page: Page, outputs: Path, tmp_path: Path
) -> None:
    page.set_default_timeout(PATIENCE_MS)
    with running_server(outputs, tmp_path / "server.log") as url:
        page.goto(url)
        page.get_by_role("button", name="New run").click()
        dialog = page.get_by_role("dialog", name="New run")
        dialog.get_by_role("combobox", name="Recipe").select_option(label="Classifier")
        dialog.get_by_role("textbox", name="Name").fill("grouped")
        dialog.get_by_role("button", name="Settings of loop").click()
        dialog.get_by_role("textbox", name="loop.hidden_dims").fill("12, 6")
        trainer = dialog.get_by_role("region", name="phase1/trainer")
        trainer.get_by_role("button", name="Settings of phase1/trainer").click()
        trainer.get_by_role("textbox", name="phase1.trainer.epochs").fill("1")
        logging = dialog.get_by_role("region", name="logging")
        logging.get_by_role("combobox", name="logging").select_option("plots_minimal")
        dialog.get_by_role("button", name="Show config").click()
        shown = dialog.get_by_role("region", name="Config of the run")
        expect(shown).to_contain_text(re.compile(r"hidden_dims:\s+- 12\s+- 6"), timeout=PATIENCE_MS)
        expect(shown).to_contain_text("- on_train_end")
        previewed = shown.inner_text().strip()
        dialog.get_by_role("switch", name="Start paused").click()
        dialog.get_by_role("button", name="Start run").click()
        expect(dialog).to_have_count(0, timeout=PATIENCE_MS)
        expect(page.get_by_role("banner")).to_contain_text("grouped", timeout=PATIENCE_MS)
        until(lambda: not any(lock_holder(each) for each in outputs.glob("**/run_*")))
        (run_dir,) = outputs.glob("**/run_*_grouped")
        assert (run_dir / ".hydra" / "config.yaml").read_text().strip() == previewed
        page.goto("about:blank")


def test_a_finished_run_opens_with_what_was_kept_of_it(
    page: Page, outputs: Path, tmp_path: Path
) -> None:
    with running_server(outputs, tmp_path / "serve.log", "--port", "0") as url:
        page.goto(url)
        start_run(page, "short", steps=40, paused=False)
        expect(page.get_by_role("banner")).to_contain_text("Finished", timeout=PATIENCE_MS)
        go_to(page, "Runs")
        expect(row_of(page, "short")).to_contain_text("Finished", timeout=PATIENCE_MS)
        row_of(page, "short").get_by_role("link", name="short").click()
        see_the_run_page(page)

        page.get_by_role("button", name="Open panels").click()
        expect_step(page, 40)
        drawn = page.get_by_role("img", name=re.compile(r"loss over steps: 40 points"))
        expect(drawn).to_be_visible(timeout=PATIENCE_MS)
        assert [step for step, _ in losses_in_chart(page, tmp_path)] == list(range(1, 41))
        for name in ("Batch", "Breakpoints", "Console", "Loss"):
            expect(page.get_by_role("region", name=name)).to_be_visible()
        expect(page.get_by_role("region", name="Batch")).to_contain_text("Last batch")
        page.get_by_role("tab", name="Features").click()
        expect(page.get_by_role("region", name=re.compile("Cosine"))).to_be_visible()

        delete_it(page, outputs)


def see_the_run_page(page: Page) -> None:
    """Every tab of the run's page has something to show, and tags are kept."""
    expect(page.get_by_role("region", name="Config")).to_contain_text("40")
    expect(page.get_by_role("region", name="Last values")).to_contain_text("Loss")
    page.get_by_role("textbox", name="Add a tag").fill("baseline")
    page.get_by_role("textbox", name="Add a tag").press("Enter")
    expect(page.get_by_role("button", name="Remove tag baseline")).to_be_visible()
    page.get_by_role("textbox", name="Note").fill("the first of many")
    page.get_by_role("button", name="Save note").click()
    expect(page.get_by_role("button", name="Save note")).to_have_count(0)
    for tab, words in (
        ("Events", "Started"),
        ("Files", "facts/events.jsonl"),
        ("Timelines", "Timeline 1"),
    ):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel")).to_contain_text(words)
    page.reload()
    page.get_by_role("tab", name="Overview").click()
    expect(page.get_by_role("textbox", name="Note")).to_have_value("the first of many")


def delete_it(page: Page, outputs: Path) -> None:
    """Deleting wants the name of the directory, and leaves nothing of the run."""
    (run_dir,) = outputs.glob("**/run_*_short")
    go_to(page, "Runs")
    row_of(page, "short").get_by_role("link", name="short").click()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("short")
    expect(dialog.get_by_role("button", name="Delete run")).to_have_attribute(
        "aria-disabled", "true"
    )
    dialog.get_by_role("textbox").fill(run_dir.name)
    dialog.get_by_role("button", name="Delete run").click()
    expect(page.get_by_text("No runs yet")).to_be_visible(timeout=PATIENCE_MS)
    assert not run_dir.exists()


@pytest.mark.soak
def test_a_run_that_does_not_answer_is_ended_in_ever_harder_ways(
    page: Page,
    outputs: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    with running_server(outputs, tmp_path / "serve.log", "--port", "0") as url:
        page.goto(url)
        start_run(page, "stuck", steps=1_000_000, paused=False)
        expect(page.get_by_role("banner")).to_contain_text("Running", timeout=PATIENCE_MS)
        (run_dir,) = outputs.glob("**/run_*_stuck")
        pid = lock_holder(run_dir)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        go_to(page, "Runs")
        expect(row_of(page, "stuck")).to_contain_text("Not responding", timeout=PATIENCE_MS)
        row_of(page, "stuck").get_by_role("link", name="stuck").click()
        button(page, "Stop").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Terminate run").click()
        # A stopped process hears no SIGTERM, so the harder way is offered.
        dialog.get_by_role("button", name="Kill run").click(timeout=PATIENCE_MS)
        expect(dialog).to_have_count(0, timeout=PATIENCE_MS)
        expect(page.get_by_role("banner")).to_contain_text("Killed", timeout=PATIENCE_MS)
        expect(page.get_by_role("button", name="Open panels")).to_be_visible()
    record_property("figure", "1 run that did not answer, ended on the page by Kill run")
