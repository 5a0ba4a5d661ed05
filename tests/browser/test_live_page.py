"""The page as a person uses it: a real demo, a real server, a real browser."""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from midstep.control import DebugController
from midstep.live import serve
from midstep.loops.autoencoder_training import AutoencoderTraining as DemoTraining
from midstep.loops.bcl_config import AutoencoderConfig
from midstep.server.auth.tokens import Tokens
from midstep.session import Run
from tests.browser.conftest import Demo, Records
from tests.browser.relay import relay
from tests.control.loop import until

pytestmark = pytest.mark.browser

HUNDREDS = "() => /Step\\s*[\\d,]{3,}/.test(document.querySelector('header').innerText)"
AWAY = re.compile("Connection: (Reconnecting|.* old)")


def button(page: Page, name: str) -> Locator:
    """A button of the transport strip, which stands above the panels."""
    return page.get_by_role("button", name=name, exact=True).first


def step_shown(page: Page) -> int:
    banner = page.get_by_role("banner")
    expect(banner).to_contain_text(re.compile(r"Step\s*[\d,]+"))
    found = re.search(r"Step\s+([\d,]+)", text := banner.inner_text())
    assert found, text
    return int(found[1].replace(",", ""))


def expect_step(page: Page, step: int) -> None:
    expect(page.get_by_role("banner")).to_contain_text(re.compile(rf"Step\s*{step:,}\s*/"))


def new_picture(page: Page, index: int, seen: list[str]) -> str:
    """The batch of that index as drawn, pixel by pixel, once it is another than those seen."""
    grid = page.get_by_role("region", name="Batch").get_by_role("grid")
    expect(grid).to_have_attribute("data-step", str(index))
    canvas = grid.locator("canvas").element_handle()
    is_new = "([canvas, seen]) => !seen.includes(canvas.toDataURL()) && canvas.toDataURL()"
    return str(page.wait_for_function(is_new, arg=[canvas, seen]).json_value())


def pauses(found: Records, step: int) -> Records:
    """Those commands to pause that took effect at a step."""
    return [each for each in found if each.get("command") == "pause" and each["step"] == step]


def losses_in_chart(page: Page, folder: Path) -> list[tuple[int, float]]:
    """What the loss chart holds, through its own export."""
    page.get_by_role("button", name="Export loss").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("CSV")).click()
    target = folder / "loss.csv"
    download.value.save_as(target)
    with target.open() as file:
        return [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]


def test_pause_step_see_resume_and_break_on_the_loss(
    demo: Demo, page: Page, tmp_path: Path
) -> None:
    page.goto(demo.url)
    expect(page.get_by_role("banner")).to_contain_text("Paused")
    expect_step(page, 0)
    assert "token" not in page.url

    pictures: list[str] = []
    for step in range(1, 6):
        button(page, "Step").click()
        expect_step(page, step)
        expect(page.get_by_role("img", name=re.compile(rf"at step {step}\b"))).to_be_visible()
        pictures.append(new_picture(page, step - 1, pictures))
    assert len(set(pictures)) == 5

    button(page, "Resume").click()
    page.wait_for_function(HUNDREDS)
    button(page, "Pause").click()
    expect(page.get_by_role("banner")).to_contain_text("Paused")
    here = demo.client.state()["step"]
    (pause,) = pauses(demo.interventions(lambda found: bool(pauses(found, here))), here)
    assert pause["step"] - pause["asked_step"] <= 1
    expect_step(page, pause["step"])

    page.get_by_role("region", name="Breakpoints").get_by_role("button", name="Add").click()
    dialog = page.get_by_role("dialog", name="Add breakpoint")
    dialog.get_by_label("Kind of condition").select_option("Expression")
    dialog.get_by_role("textbox").fill("loss >")
    dialog.get_by_role("button", name="Add breakpoint").click()
    expect(dialog).to_contain_text("does not parse")
    goal = pause["step"] + 50
    dialog.get_by_role("textbox").fill(f"loss > 0 and step >= {goal}")
    dialog.get_by_role("button", name="Add breakpoint").click()
    expect(dialog).to_have_count(0)
    button(page, "Resume").click()
    expect(page.get_by_text("Stopped by breakpoint 1", exact=True)).to_be_visible()
    expect_step(page, goal)
    state = demo.client.state()
    assert state["breakpoint"]["step"] == goal
    assert state["batch_step"] == goal - 1

    expect(page.get_by_role("img", name=re.compile(rf"at step {goal:,}\b"))).to_be_visible()
    assert [step for step, _ in losses_in_chart(page, tmp_path)] == list(range(1, goal + 1))


def test_the_loss_chart_is_read_and_zoomed_by_pointer_and_by_keys(demo: Demo, page: Page) -> None:
    page.goto(demo.url)
    expect_step(page, 0)
    field = page.get_by_role("textbox", name="How many steps")
    field.fill("60")
    field.press("Enter")
    expect_step(page, 60)
    panel = page.get_by_role("region", name="Loss")
    chart = panel.get_by_role(
        "img", name=re.compile(r"^loss over steps: 60 points, .*at step 60\b")
    )
    expect(panel).to_contain_text("each step")

    chart.focus()
    chart.press("ArrowLeft")
    expect(panel).to_contain_text("at step 60")
    chart.press("Shift+ArrowLeft")
    expect(panel).to_contain_text("at step 50")
    chart.press("Home")
    expect(panel).to_contain_text(re.compile(r"at step 1\b"))
    chart.press("Escape")
    expect(panel).to_contain_text("each step")

    box = chart.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    expect(panel).to_contain_text(re.compile(r"at step 2\d\b"))
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"zoom=\d+-\d+"))
    expect(panel.get_by_role("radio", name="Zoom")).to_be_checked()
    chart.press("0")
    expect(page).to_have_url(re.compile("zoom=all"))
    page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
    expect(panel.get_by_role("radio", name="600")).to_be_checked()
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.wheel(0, -120)
    expect(page).to_have_url(re.compile(r"zoom=\d+-\d+"))


def test_a_broken_connection_heals_without_a_gap_in_the_chart(page: Page, tmp_path: Path) -> None:
    controller = DebugController()
    controller.pause()
    with (
        relay() as wire,
        Run(name="cut", save_dir=tmp_path / "runs", controller=controller) as run,
        training(run),
        serve(run, port=0, allowed_hosts=[f"127.0.0.1:{wire.port}"]) as served,
    ):
        wire.to(served.port)
        page.goto(served.url)
        button(page, "Resume").click()
        page.wait_for_function(HUNDREDS)
        wire.cut()
        expect(page.get_by_role("button", name=AWAY)).to_be_visible()
        while_away = run.step
        until(lambda: run.step > while_away + 50, controller)
        wire.mend()
        expect(page.get_by_role("button", name="Connection: Live")).to_be_visible()
        button(page, "Pause").click()
        expect(page.get_by_role("banner")).to_contain_text("Paused")
        expect(page.get_by_role("img", name=re.compile(rf"at step {run.step:,}\b"))).to_be_visible()
        steps = [step for step, _ in losses_in_chart(page, tmp_path)]
        assert steps == list(range(1, run.step + 1))


@contextmanager
def training(run: Run) -> Iterator[None]:
    """The demo's loop on a thread of this process, a step every few milliseconds."""
    demo = DemoTraining(AutoencoderConfig(steps=100_000))
    thread = threading.Thread(target=demo.train, args=(run,), name="training")
    thread.start()
    try:
        yield
    finally:
        run.controller.stop()
        thread.join(60)


def test_keys_step_and_pause_and_leave_fields_alone(demo: Demo, page: Page) -> None:
    page.goto(demo.url)
    expect_step(page, 0)
    expect(button(page, "Step")).to_be_enabled()  # it may still be loading its data
    page.keyboard.press("ArrowRight")
    expect_step(page, 1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Step")
    page.keyboard.press("Escape")
    field = page.get_by_role("textbox", name="How many steps")
    field.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert demo.client.state()["step"] == 1
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog")
    expect(palette.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("resume")
    expect(palette.get_by_role("option", selected=True)).to_contain_text("Resume")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => /Step\\s*[\\d,]{2,}/.test(document.querySelector('header').innerText)"
    )
    assert demo.client.state()["paused"] is False


def test_a_stale_token_is_told_in_words(demo: Demo, page: Page) -> None:
    page.goto(demo.url.partition("#")[0] + "#token=" + "x" * 43)
    expect(page.locator("body")).to_contain_text(re.compile("token|link", re.IGNORECASE))
    expect(page.get_by_role("button", name="Resume", exact=True)).to_have_count(0)


def test_a_view_only_link_shows_everything_and_can_change_nothing(demo: Demo, page: Page) -> None:
    viewer = Tokens.for_root(demo.save_dir).viewer
    page.goto(demo.url.partition("#")[0] + f"#token={viewer}")
    expect_step(page, 0)
    expect(page.get_by_role("button", name=re.compile("View-only"))).to_be_visible()
    expect(button(page, "Step")).to_have_attribute("aria-disabled", "true")
    button(page, "Step").click(force=True)
    page.keyboard.press("ArrowRight")
    assert demo.client.state()["step"] == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_themes(demo: Demo, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(demo.url)
    expect_step(page, 0)
    button(page, "Step").click()
    expect_step(page, 1)
    page.wait_for_function(
        "() => document.documentElement.scrollWidth === innerWidth"
        " && document.documentElement.scrollHeight === innerHeight"
    )
    background = {"light": "rgb(244, 245, 247)", "dark": "rgb(12, 14, 17)"}[scheme]
    expect(page.locator("body")).to_have_css("background-color", background)
