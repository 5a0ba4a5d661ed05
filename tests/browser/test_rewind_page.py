"""Going back from the page by button, key and slider; new hyperparameters and the old again."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.live import serve
from midstep.session import Session, SessionConfig
from tests.browser.conftest import Demo, Records

pytestmark = pytest.mark.browser


@contextmanager
def session_page(folder: Path) -> Iterator[tuple[torch.optim.Optimizer, str]]:
    """A session of this process that stands before its first step."""
    inputs = torch.randn(256, 16, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(inputs, (inputs.sum(1) > 0).long()), batch_size=16)
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    config = SessionConfig(save_dir=folder)
    session = Session(model, optimizer, nn.CrossEntropyLoss(), loader, config=config)
    session.controller.pause()
    thread = threading.Thread(target=session.fit, kwargs={"steps": 100_000}, name="training")
    with session, serve(session, port=0) as page:
        thread.start()
        try:
            yield optimizer, str(page.url)
        finally:
            session.controller.stop()
            thread.join(60)


def weights(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return list(optimizer.param_groups[0]["params"])


def expect_step(page: Page, step: int) -> None:
    expect(page.get_by_role("banner")).to_contain_text(re.compile(rf"Step\s*{step:,}\s*/"))


def test_back_by_button_key_and_slider_and_forward_again(tmp_path: Path, page: Page) -> None:
    with session_page(tmp_path / "runs") as (optimizer, url):
        page.goto(url)
        expect_step(page, 0)
        field = page.get_by_role("textbox", name="How many steps")
        field.fill("12")
        field.press("Enter")
        expect_step(page, 12)
        there = [weight.clone() for weight in weights(optimizer)]

        page.get_by_role("button", name="Back", exact=True).click()
        expect_step(page, 11)
        expect(page.get_by_role("button", name="Back", exact=True)).to_be_enabled()
        page.keyboard.press("ArrowLeft")
        expect_step(page, 10)
        slider = page.get_by_role("slider", name=re.compile("Rewind"))
        expect(slider).to_have_attribute("aria-valuemax", "10")
        expect(slider).to_be_enabled()
        slider.focus()
        for _ in range(4):
            slider.press("ArrowLeft")
        expect(slider).to_have_attribute("aria-valuetext", re.compile("^6, (replays|no replay)"))
        slider.press("Enter")
        expect_step(page, 6)
        # What was undone stays in pale, also on a page that is loaded later, and on the Charts tab.
        pale = r"Pale: 6 points of earlier timelines\."
        chart = page.get_by_role("img", name=re.compile(rf"^loss over steps: 6 points.*{pale}"))
        expect(chart).to_be_visible()
        page.reload()
        expect(chart).to_be_visible()
        page.get_by_role("tab", name="Charts").click()
        card = page.get_by_role("region", name="loss", exact=True)
        expect(card.get_by_role("img", name=re.compile(pale))).to_be_visible()
        page.get_by_role("tab", name="Step").click()

        # Nobody watched as that step was made, yet its weights can be compared.
        page.get_by_role("tab", name="Features").click()
        matrix = page.get_by_role("region", name="Cosine similarity")
        expect(matrix.locator("[data-matrix=left] [data-step='6']")).to_contain_text("mean")

        field.fill("6")
        field.press("Enter")
        expect_step(page, 12)
        for before, now in zip(there, weights(optimizer), strict=True):
            assert torch.equal(before, now)


def test_the_demo_is_taken_back_and_goes_on_to_the_same_batch(demo: Demo, page: Page) -> None:
    """The first thing that everybody sees; its default condition has a state of its own."""
    page.goto(demo.url)
    expect_step(page, 0)
    field = page.get_by_role("textbox", name="How many steps")
    field.fill("9")
    field.press("Enter")
    expect_step(page, 9)
    loss, weights = demo.client.state()["loss"], demo.client.step_data("bcl_metrics")["data"]

    page.get_by_role("button", name="Back", exact=True).click()
    expect_step(page, 8)
    slider = page.get_by_role("slider", name=re.compile("Rewind"))
    expect(slider).to_have_attribute("aria-valuemax", "8")
    expect(slider).to_be_enabled()
    slider.focus()
    for _ in range(3):
        slider.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^5, (replays|no replay)"))
    slider.press("Enter")
    expect_step(page, 5)

    field.fill("4")
    field.press("Enter")
    expect_step(page, 9)
    assert demo.client.state()["loss"] == loss
    assert demo.client.step_data("bcl_metrics")["data"] == weights
    taken = demo.interventions(lambda found: len(rewinds(found)) >= 2)
    assert rewinds(taken) == [8, 5]


def rewinds(found: Records) -> list[int]:
    return [each["step"] for each in found if each.get("kind") == "rewind"]


def test_hyperparameters_are_set_and_undone(tmp_path: Path, page: Page) -> None:
    with session_page(tmp_path / "runs") as (optimizer, url):
        page.goto(url)
        expect_step(page, 0)
        page.get_by_title("Set hyperparameters").click()
        dialog = page.get_by_role("dialog", name="Set hyperparameters")
        dialog.get_by_label("Learning rate").fill("0.05")
        dialog.get_by_role("button", name="Set", exact=True).click()
        expect(page.get_by_role("banner")).to_contain_text("lr0.05")
        assert optimizer.param_groups[0]["lr"] == 0.05
        page.get_by_role("button", name=re.compile("Undo")).click()
        expect(page.get_by_role("banner")).to_contain_text("lr0.1")
