"""The bench of an open page asks what the page asks."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from benchmarks.page.page_requests import asked_every_s, subscriptions
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_S, Demo

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("tab", ["Step", "Features"])
def test_what_the_page_asks_again_and_again_is_what_the_bench_asks(
    page: Page, demo: Demo, tab: str
) -> None:
    asked: Counter[str] = Counter()
    at_once: list[set[str]] = []
    subscribed: list[str] = []

    def note_subscriptions(request: Request) -> None:
        if request.method == "PUT":
            subscribed.append(str(request.post_data))

    def note(request: Request) -> None:
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
        at_once.append(set(questions))
        asked.update(questions)

    page.on("request", note_subscriptions)
    page.goto(demo.url)
    page.get_by_role("tab", name=tab).click()
    demo.client.resume()
    page.wait_for_timeout(2_000)  # what is asked once, at the start, is not meant
    page.on("request", note)
    begun = time.monotonic()
    expected = asked_every_s(tab.lower(), "novelty")
    each_beat = {path for path, every_s in expected.items() if every_s == 1.0}
    while any(asked[path] < 2 for path in expected) or not any(each_beat <= one for one in at_once):
        assert time.monotonic() < begun + PATIENCE_S, (asked, at_once)
        page.wait_for_timeout(100)
    spent_s = time.monotonic() - begun
    again = {path for path, times in asked.items() if times > 1}
    assert again == set(expected)
    for path, every_s in expected.items():
        assert asked[path] <= spent_s / every_s + 2
    (*_, last) = subscribed
    listed = {each["id"]: each for each in json.loads(last)["subscriptions"]}
    assert listed == {each["id"]: each for each in subscriptions(tab.lower(), "novelty")}


ENDLESS = """() => document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().iterations === Infinity).length"""


def test_nothing_is_animated_without_end_while_a_run_goes_on(page: Page, demo: Demo) -> None:
    page.goto(demo.url)
    demo.client.resume()
    dot = page.get_by_role("banner").get_by_text("Running").locator("span")
    for opacity in ("0.35", "1"):  # it beats all the same
        expect(dot).to_have_css("opacity", opacity)
    assert page.evaluate(ENDLESS) == 0
