"""Live · Charts: every scalar has a chart; zoom and cursor are shared, pins are kept."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from midstep.control import DebugController
from midstep.live import serve
from midstep.session import Run
from tests.control.loop import running

pytestmark = pytest.mark.browser
STEPS = 200
SPIKE_AT = 150


@pytest.fixture
def gan_page(tmp_path: Path) -> Iterator[str]:
    """A paused GAN: two losses and no `loss`, a metric with validation, the step, a spike."""
    controller = DebugController()
    noise = random.Random(0)
    with Run(name="gan", save_dir=tmp_path, controller=controller, total_steps=1000) as run:

        def step(index: int) -> None:
            accuracy = 0.5 + index / 500
            spike = 900.0 if index == SPIKE_AT else 0.0
            run.log(loss_d=1 + noise.random(), loss_g=2 + noise.random(), ramp=float(index))
            run.log(accuracy=accuracy, grad_norm=1 + noise.random() + spike)
            if index % 20 == 19:
                run.log_finished(val_accuracy=accuracy - 0.1)
            if index == STEPS:
                controller.pause()

        with serve(run, port=0) as page, running(controller, step):
            yield str(page.url)


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def drag(page: Page, target: Locator, start: float, stop: float) -> None:
    """From one share of the width of a chart to another."""
    box = target.get_by_role("img").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + stop * box["width"], y, steps=3)
    page.mouse.up()


def cursor_step(page: Page, target: Locator, share: float) -> float:
    """The step under the pointer in one chart, as another chart shows it in its header."""
    box = target.get_by_role("img").bounding_box()
    assert box is not None
    page.mouse.move(
        box["x"] + share * box["width"] + 1, box["y"] + box["height"] / 3
    )  # a move of its own, so that the page hears of it
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 3)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    shown = re.search(r"ramp ([\d.,]+)", chart(page, "ramp").inner_text().replace("\n", " "))
    assert shown is not None
    return float(shown[1].replace(",", ""))


def test_every_scalar_with_one_zoom_one_cursor_and_pins(page: Page, gan_page: str) -> None:
    page.goto(gan_page)
    # Nothing is called `loss`, so the first one with that word in its name is drawn.
    drawn = page.get_by_role("img", name=re.compile(r"^loss_d over steps: 20\d points"))
    expect(drawn).to_be_visible()

    page.get_by_role("tab", name="Charts 5").click()
    for name in ("accuracy", "grad_norm", "loss_d", "loss_g", "ramp"):
        expect(chart(page, name).get_by_role("img", name=name)).to_be_visible()
    both = chart(page, "accuracy").get_by_role("img", name=re.compile("^accuracy and val_accuracy"))
    expect(both).to_have_attribute("aria-label", re.compile(": 211 points"))
    expect(chart(page, "grad_norm")).to_contain_text("1 above, max 90")

    # The cursor of one chart shows values in all, and a drag in one zooms all.
    assert 60 < cursor_step(page, chart(page, "loss_d"), 0.5) < 140
    assert cursor_step(page, chart(page, "loss_d"), 0.15) < 40
    drag(page, chart(page, "accuracy"), 0.5, 0.7)
    expect(page).to_have_url(re.compile(r"span=\d+-\d+"))
    assert cursor_step(page, chart(page, "loss_g"), 0.2) > 75
    expect(chart(page, "grad_norm")).not_to_contain_text("above")
    chart(page, "grad_norm").get_by_role("img").dblclick()
    expect(page).not_to_have_url(re.compile("span="))
    expect(chart(page, "grad_norm")).to_contain_text("1 above")
    page.get_by_role("radio", name="Full").click()
    expect(chart(page, "grad_norm")).not_to_contain_text("above")

    # P pins the chart with focus, and the address keeps it.
    names = page.locator("[data-chart] h3")
    expect(names.first).to_have_text("accuracy")
    chart(page, "ramp").get_by_role("img").focus()
    page.keyboard.press("p")
    expect(names.first).to_have_text("ramp")
    page.reload()
    expect(names).to_have_text(["ramp", "accuracy", "grad_norm", "loss_d", "loss_g"])
    page.keyboard.press("/")
    page.keyboard.type("LOSS")
    expect(names).to_have_text(["loss_d", "loss_g"])
