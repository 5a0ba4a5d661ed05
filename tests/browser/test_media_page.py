"""The Media tab: pictures, texts, tables and histograms of a run, by name, at the chosen step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from midstep.server.root_server import RootServer, RootServerConfig
from midstep.session import Run

pytestmark = pytest.mark.browser
STEPS = (1, 10, 20)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RootServer]:
    folder: Path = tmp_path_factory.mktemp("outputs")
    with Run(name="gan", save_dir=folder / "runs") as run:
        for step in range(1, 21):
            run.log(loss=1 / step)
            if step in STEPS:
                run.log(
                    samples=torch.full((3, 8, 8), step / 20),
                    poem=f"at {step}\n<b>not markup</b>",
                    worst=[{"id": step, "word": "cat"}, {"id": 0, "word": "dog"}],
                    scores=torch.linspace(0, step, 50),
                )
            run.controller.wait_if_paused()
    with RootServer(RootServerConfig(outputs=folder, port=0)) as server:
        yield server


@pytest.mark.parametrize("token", ["control", "viewer"])
def test_one_slider_walks_through_everything_that_was_logged(
    page: Page, root: RootServer, token: str
) -> None:
    link = root.url if token == "control" else root.viewer_url
    page.goto(link.replace("/#", "/runs#"))
    page.get_by_role("link", name="gan").first.click()
    page.get_by_role("tab", name="Media").click()
    picture = page.get_by_role("region", name="samples, image")
    expect(picture).to_contain_text("step 20")
    expect(picture).to_contain_text("8 × 8 px")
    image = picture.get_by_role("img")
    expect(image).to_have_attribute("alt", "samples at step 20")
    box = image.bounding_box()
    assert box is not None
    assert box["width"] == box["height"] == 8 * round(box["width"] / 8), "whole pixels"
    poem = page.get_by_role("region", name="poem, text")
    expect(poem).to_contain_text("at 20")
    expect(poem).to_contain_text("<b>not markup</b>")
    slider = page.get_by_role("slider", name="Step")
    slider.focus()
    slider.press("ArrowLeft")
    expect(poem).to_contain_text("at 10")
    expect(picture).to_contain_text("step 10")
    worst = page.get_by_role("region", name="worst, table")
    expect(worst.get_by_role("cell", name="10", exact=True)).to_be_visible()
    worst.get_by_role("button", name="id").click()
    expect(worst.get_by_role("row").nth(1)).to_contain_text("cat")
    scores = page.get_by_role("region", name="scores, histogram")
    assert "histograms of 3 steps" in str(scores.get_by_role("img").get_attribute("aria-label"))
    expect(scores).to_contain_text("50 values")
    assert "media_step=10" in page.url
    page.get_by_role("button", name="Newest").click()
    expect(poem).to_contain_text("at 20")
    picture.get_by_role("button", name="Enlarge").click()
    expect(page.get_by_role("dialog")).to_contain_text("8 × 8 px")
