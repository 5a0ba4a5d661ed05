"""The page names where a stop came from, and offers the way back; an error has its traceback."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import midstep
from tests.checkers.neutral import wait_until
from tests.live.stopped import ImageLoop, stopped

pytestmark = pytest.mark.browser


@contextmanager
def stopped_page(folder: Path) -> Iterator[str]:
    """The address of a run that stopped at an image with NaN; its step data are in view."""
    loop = ImageLoop()
    run = midstep.attach(*loop.parts, save_dir=folder, serve=True, port=0, name="culprit")
    with stopped(run, loop.train):
        assert run.url is not None
        yield run.url


def test_the_page_names_the_sample_and_the_layer(tmp_path: Path, page: Page) -> None:
    with stopped_page(tmp_path) as url:
        page.goto(url)
        pill = page.get_by_role("status").filter(has_text="Loss is NaN.")
        expect(pill).to_contain_text("First non-finite: input of sample 37 → conv1 output")

        sample = page.get_by_role("region", name="Sample 37")
        expect(sample).to_contain_text("16 of 64 values, rows 3 to 4, all NaN")
        expect(sample).to_contain_text("Place 6 of 8")
        for name in ("Input", "conv1 output"):
            expect(sample.get_by_role("img", name=name)).to_be_visible()
        batch = page.get_by_role("region", name="Batch")
        expect(batch.get_by_role("gridcell")).to_have_attribute(
            "aria-label", re.compile("^Sample 37,")
        )

        rows = page.get_by_role("table", name="Layers in the order they ran").get_by_role("row")
        expect(rows.nth(1)).to_contain_text("inputSource: sample 37")
        expect(rows.nth(2)).to_contain_text("conv1First bad layer")
        expect(rows.nth(2)).to_have_attribute("aria-current", "true")
        expect(rows.nth(5)).to_contain_text("lossCarries it100.00")

        changes = page.get_by_role("grid", name="What changed")
        expect(changes.get_by_role("row").nth(1)).to_contain_text("First, explains the rest")
        changes.focus()
        changes.press("ArrowDown")  # a row leads to its step in the chart
        expect(page.get_by_text("NaN at step 5", exact=False)).to_be_visible()
        chart = page.get_by_role("img", name=re.compile("^loss over steps: 5 points"))
        words = re.compile(r"last finite \S+ at step 4, NaN at step 5")
        expect(chart).to_have_attribute("aria-label", words)

        page.get_by_role("radio", name="Breakpoints 1").click()
        expect(page.get_by_role("list", name="Breakpoints")).to_contain_text("loss is not finite")
        page.get_by_role("radio", name="Commands").click()
        expect(page.get_by_role("log", name="Command log")).to_contain_text("pause")

        pill.get_by_role("button", name="Back 1").click()
        expect(pill).to_have_count(0)
        expect(page.get_by_role("banner")).to_contain_text(re.compile(r"Step\s*4"))
        # Nothing of the stop is shown at another step.
        expect(sample).to_have_count(0)
        expect(changes).to_have_count(0)


def failing(folder: Path) -> Any:
    loop = ImageLoop(bad=-1)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for x, _y in loop.loader:
                loop.model(x).sum().backward()
                loop.optimizer.step()
                if run.step == 2:
                    raise ValueError("a planted error")

    run = midstep.attach(
        *loop.parts, save_dir=folder, serve=True, port=0, on_error="park", name="failing"
    )
    return run, train


def test_an_error_shows_its_traceback_and_its_batch(tmp_path: Path, page: Page) -> None:
    run, train = failing(tmp_path)
    errors: list[BaseException] = []

    def body() -> None:
        try:
            with run as opened:
                train(opened)
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=body, name="training")
    thread.start()
    try:
        wait_until(run.controller, lambda state: state["parked"])
        page.goto(run.url)
        page.get_by_role("button", name="Show traceback").click()
        dialog = page.get_by_role("dialog", name="Traceback")
        expect(dialog).to_contain_text('raise ValueError("a planted error")')
        expect(page.get_by_role("grid")).to_be_visible()  # the batch at which it failed
    finally:
        run.controller.resume()
        thread.join(60)
    assert len(errors) == 1
