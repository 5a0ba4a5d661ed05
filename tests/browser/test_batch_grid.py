"""The grid of a batch: samples in view, one at full resolution, values that are not finite."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, Request, expect

from midstep.control import DebugController
from midstep.live import serve
from midstep.session import Run
from tests.browser.test_live_page import button
from tests.control.loop import running

pytestmark = pytest.mark.browser

SAMPLES = 200
SIDE = 64
"""Tiles are smaller than that."""
NAN_LIGHT = [232, 0, 196, 255]


def images() -> torch.Tensor:
    """Each sample has a grey of its own; the first is NaN."""
    greys = torch.linspace(0.0, 1.0, SAMPLES)
    batch = greys[:, None, None, None].expand(SAMPLES, 3, SIDE, SIDE).clone()
    batch[0] = float("nan")
    return batch


@pytest.fixture
def grid(page: Page, tmp_path: Path) -> Iterator[Locator]:
    """The grid of a paused run after its first step."""
    batch, controller = images(), DebugController()
    controller.pause()

    def body(step: int) -> None:
        controller.capture_batch(batch, 1.0, step, labels=list(range(SAMPLES)))

    with (
        Run(name="grid", save_dir=tmp_path / "runs", controller=controller) as run,
        running(controller, body),
        serve(run, port=0) as served,
    ):
        page.emulate_media(color_scheme="light")
        page.goto(str(served.url))
        button(page, "Step").click()
        grid = page.get_by_role("region", name="Batch").get_by_role("grid")
        expect(grid).to_have_attribute("data-step", "0")
        yield grid
        controller.stop()


def test_scrolling_loads_the_samples_that_come_into_view(page: Page, grid: Locator) -> None:
    panel = page.get_by_role("region", name="Batch")
    expect(panel).to_contain_text(f"64 of {SAMPLES} samples")
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    grid.focus()
    for key in ("Home", "End"):  # the first key puts the cursor on the first sample
        page.keyboard.press(key)
    last = f"Sample {SAMPLES - 1}"
    expect(panel).to_contain_text(last)  # it is described once it is loaded
    expect(panel).to_contain_text(f"Label {SAMPLES - 1}")
    ranges = [re.search(r"/batch\?first=(\d+)&count=(\d+)", url) for url in asked]
    first, count = max((int(each[1]), int(each[2])) for each in ranges if each)
    assert first > 0
    assert first + count == SAMPLES
    page.keyboard.press("Home")
    expect(panel).to_contain_text(f"64 of {SAMPLES} samples")


def test_enter_shows_the_sample_at_full_resolution(page: Page, grid: Locator) -> None:
    grid.focus()
    for key in ("Home", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog", name="Sample 1", exact=True)
    picture = dialog.get_by_role("img")
    expect(picture).to_be_visible()
    size = picture.evaluate("(image) => [image.naturalWidth, image.naturalHeight]")
    assert size == [SIDE, SIDE]
    expect(dialog).to_contain_text(f"3 × {SIDE} × {SIDE}")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(grid).to_be_focused()


def test_values_that_are_not_finite_have_a_colour_of_their_own(page: Page, grid: Locator) -> None:
    pixel = """(canvas) => {
      const ratio = devicePixelRatio;
      return [...canvas.getContext("2d").getImageData(16 * ratio, 16 * ratio, 1, 1).data];
    }"""
    canvas = grid.locator("canvas")
    expect(canvas).to_be_visible()
    assert canvas.evaluate(pixel) == NAN_LIGHT
