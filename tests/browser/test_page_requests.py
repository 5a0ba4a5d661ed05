"""The bench of an open page asks what the page asks."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from benchmarks.page.page_requests import asked_every_s, subscriptions
from playwright.sync_api import expect

import midstep
from midstep.live import AttachedRun
from tests.browser.conftest import PATIENCE_S, Demo
from tests.control.loop import until
from tests.live.stopped import ImageLoop
from tests.live.trainer import in_thread

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

pytestmark = pytest.mark.browser


class AskedRequests:
    """What a page asks again and again, and what it subscribes to."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._asked: Counter[str] = Counter()
        self._at_once: list[set[str]] = []
        self._subscribed: list[str] = []
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        if request.method == "PUT":
            self._subscribed.append(str(request.post_data))
        if request.method != "GET":
            return
        place = urlsplit(request.url)
        path = place.path.partition("/debug/")[2]
        name = f"debug/{path}" if path else place.path
        questions = [name if not place.query else f"{name}?{place.query}"]
        if path == "together":
            questions = [f"debug/{each}" for each in parse_qs(place.query)["ask"]]
        # The picture of one capture: its name is another one each time.
        questions = [each.partition("&etag=")[0] for each in questions]
        self._at_once.append(set(questions))
        self._asked.update(questions)

    def assert_as_the_bench(self, tab: str, condition: str) -> None:
        """Open a tab of a run that trains, and compare."""
        self._page.get_by_role("tab", name=tab).click()
        self._page.wait_for_timeout(2_000)  # what is asked once, at the start, is not meant
        self._asked.clear()
        self._at_once.clear()
        begun = time.monotonic()
        expected = asked_every_s(tab.lower(), condition)
        # The picture is asked for when its batch is there, all else of a second in one request.
        each_beat = {
            path for path, every_s in expected.items() if every_s == 1.0 and "/picture" not in path
        }
        while any(self._asked[path] < 2 for path in expected) or not any(
            each_beat <= one for one in self._at_once
        ):
            assert time.monotonic() < begun + PATIENCE_S, (tab, self._asked, self._at_once)
            self._page.wait_for_timeout(100)
        spent_s = time.monotonic() - begun
        assert {path for path, times in self._asked.items() if times > 1} == set(expected), tab
        for path, every_s in expected.items():
            assert self._asked[path] <= spent_s / every_s + 2, tab
        listed = {each["id"]: each for each in json.loads(self._subscribed[-1])["subscriptions"]}
        assert listed == {each["id"]: each for each in subscriptions(tab.lower(), condition)}, tab


def test_what_the_page_asks_again_and_again_is_what_the_bench_asks(page: Page, demo: Demo) -> None:
    asked = AskedRequests(page)
    page.goto(demo.url)
    demo.client.resume()
    for tab in ("Step", "Charts", "Features", "Panels"):
        asked.assert_as_the_bench(tab, "novelty")


@pytest.mark.parametrize("declares_loss", [False, True])
def test_of_a_plain_classifier_too(page: Page, tmp_path: Path, declares_loss: bool) -> None:
    """As the benches on a GPU, and with batches of 39 MB."""
    loop = ImageLoop(bad=-1)

    def train(run: AttachedRun) -> None:
        for _ in run.epochs(1_000_000):
            for x, y in loop.loader:
                loss = loop.loss_fn(loop.model(x), y)
                loss.backward()
                loop.optimizer.step()
                loop.optimizer.zero_grad()
                run.log(loss=loss)
                time.sleep(0.01)

    declared = loop.loss_fn if declares_loss else None
    run = midstep.attach(*loop.parts, save_dir=tmp_path, serve=True, port=0, loss_fn=declared)
    with in_thread(run, train):
        until(lambda: run.url is not None and run.step > 0, run.controller)
        asked = AskedRequests(page)
        page.goto(str(run.url))
        asked.assert_as_the_bench("Step", "layers")


ENDLESS = """() => document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().iterations === Infinity).length"""


def test_nothing_is_animated_without_end_while_a_run_goes_on(page: Page, demo: Demo) -> None:
    page.goto(demo.url)
    demo.client.resume()
    dot = page.get_by_role("banner").get_by_text("Running").locator("span")
    for opacity in ("0.35", "1"):  # it beats all the same
        expect(dot).to_have_css("opacity", opacity)
    assert page.evaluate(ENDLESS) == 0
