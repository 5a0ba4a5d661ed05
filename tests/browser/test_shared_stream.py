"""Several tabs of one browser, and a chart of a million points."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from midstep.control import DebugController
from midstep.live import serve
from midstep.session import Run
from tests.browser.test_live_page import button, losses_in_chart, training
from tests.control.loop import until

pytestmark = pytest.mark.browser

MILLION = 1_000_000


def expect_step(page: Page, step: int) -> None:
    expect(page.get_by_role("banner")).to_contain_text(re.compile(rf"Step\s*{step:,}(?!\d)"))


def test_two_tabs_share_one_stream_and_the_second_goes_on_alone(page: Page, tmp_path: Path) -> None:
    controller = DebugController()
    controller.pause()
    with (
        Run(
            name="tabs", save_dir=tmp_path / "runs", controller=controller, on_error="raise"
        ) as run,
        training(run),
        serve(run, port=0) as served,
    ):
        page.goto(served.url)
        expect_step(page, 0)
        second = page.context.new_page()
        second.goto(served.url)
        expect_step(second, 0)
        button(second, "Step").click()
        for each in (page, second):
            expect_step(each, 1)
            expect(each.get_by_role("button", name="Connection: Live")).to_be_visible()
        until(lambda: controller.captures.viewers == 1, controller)
        page.goto("about:blank")  # the reader of the stream goes; the other takes its place
        until(lambda: controller.captures.viewers == 1, controller)
        for step in (2, 3):
            button(second, "Step").click()
            expect_step(second, step)
        expect(second.get_by_role("img", name="loss over steps: 3 points")).to_be_visible()
        assert [step for step, _ in losses_in_chart(second, tmp_path)] == [1, 2, 3]
        until(lambda: controller.captures.viewers == 1, controller)
        second.close()
        until(lambda: controller.captures.viewers == 0, controller)


def test_a_million_points_arrive_in_the_chart(page: Page, tmp_path: Path) -> None:
    controller = DebugController()
    controller.pause()
    with Run(
        name="long", save_dir=tmp_path / "runs", controller=controller, on_error="raise"
    ) as run:
        wave = np.sin(np.arange(1, MILLION + 1) / 5e4).tolist()
        for step, value in enumerate(wave, 1):
            run.facts.log(step, loss=value)
        run.facts.sync()
        with serve(run, port=0) as served:
            page.goto(served.url)
            label = f"loss over steps: {MILLION:,} points, .* at step {MILLION:,}"
            expect(page.get_by_role("img", name=re.compile(label))).to_be_visible()
            expect(page.get_by_role("region", name="Loss")).to_contain_text("each step")
            page.goto("about:blank")
    assert run.facts.dropped == 0
