"""Samples of trainings as users write them: text, a table, segmentation, sounds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from torch import nn
from torch.utils.data import DataLoader

import midstep
from tests.browser.test_accessibility import assert_nothing_serious
from tests.browser.test_live_page import button
from tests.control.loop import until
from tests.live.trainer import in_thread

pytestmark = pytest.mark.browser

NAN_LIGHT = "rgb(232, 0, 196)"
Loss = Callable[[nn.Module, Any], torch.Tensor]


@contextmanager
def shown(
    page: Page, tmp_path: Path, samples: list[Any], model: nn.Module, loss_of: Loss, **settings: Any
) -> Iterator[Locator]:
    """The batch panel of a training under `attach`, after its first step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader: DataLoader[Any] = DataLoader(samples, batch_size=8)  # type: ignore[arg-type]
    attached = midstep.attach(
        model,
        optimizer,
        loader,
        serve=True,
        port=0,
        start_paused=True,
        save_dir=tmp_path,
        **settings,
    )

    def train(run: Any) -> None:
        for _ in run.epochs(100):
            for batch in loader:
                loss = loss_of(model, batch)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)

    with in_thread(attached, train):
        until(lambda: attached.controller.is_parked, attached.controller)
        page.emulate_media(color_scheme="light")
        page.goto(str(attached.url))
        # The first step after the page subscribed to the batch has its losses, too.
        button(page, "Step").click()
        panel = page.get_by_role("region", name="Batch", exact=True)
        expect(panel.get_by_role("grid")).to_be_visible()
        button(page, "Step").click()
        expect(page.get_by_text(re.compile(r"^Paused$")).first).to_be_visible()
        yield panel


def open_first(page: Page, panel: Locator) -> Locator:
    """The dialog of the first sample, opened by keyboard."""
    assert_nothing_serious(page)
    panel.get_by_role("grid").focus()
    for key in ("Home", "Enter"):
        page.keyboard.press(key)
    return page.get_by_role("dialog")


# -- text -----------------------------------------------------------------------------------------


class Tokenizer:
    """Whole words; a Hugging Face tokenizer has the same names."""

    pad_token_id = 0
    words = ("[PAD]", "a", "film", "was", "wonderful", "dull", "story", "the", "=1+1", "<b>")

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[each] for each in ids)


class Bag(nn.Module):
    """Logits from the mean of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 2]."""
        logits: torch.Tensor = self.head(self.embedding(ids).mean(1))
        return logits


def test_a_text_training_shows_words_targets_predictions_and_losses(
    page: Page, tmp_path: Path
) -> None:
    ids = [[7, 2, 3, 4, 0, 0], [1, 5, 6, 8, 9, 0]] * 8
    samples = [
        {
            "input_ids": torch.tensor(row),
            "attention_mask": torch.tensor(row).ne(0).long(),
            "labels": torch.tensor(at % 2),
        }
        for at, row in enumerate(ids)
    ]
    loss_fn = nn.CrossEntropyLoss()

    def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
        loss: torch.Tensor = loss_fn(model(batch["input_ids"]), batch["labels"])
        return loss

    view = midstep.view(Tokenizer(), class_names=["bad", "good"])
    with shown(page, tmp_path, samples, Bag(), loss_of, loss_fn=loss_fn, view=view) as panel:
        row = panel.get_by_role("row").nth(1)
        expect(row).to_contain_text("the film was wonderful")
        expect(row).to_contain_text("bad")
        expect(panel).to_contain_text(re.compile(r"\d right \d wrong"))
        panel.get_by_text("a dull story =1+1 <b>").first.click()
        text = panel.get_by_role("region", name=re.compile("Text of sample"))
        expect(text).to_contain_text("5 tokens")
        expect(text).to_contain_text("a dull story =1+1 <b>")
        expect(text.locator("span[title^='token 5 of 5']")).to_have_text(" <b>")
        panel.get_by_role("radio", name="By loss").click()
        dialog = open_first(page, panel)
        for fact in ("Target", "Prediction", "Loss", "% of the batch's"):
            expect(dialog).to_contain_text(fact)
        assert_nothing_serious(page)


# -- a table --------------------------------------------------------------------------------------


def test_a_table_names_its_columns_and_marks_what_is_not_finite(page: Page, tmp_path: Path) -> None:
    samples = [
        {"age": 30.0 + k, "rooms": k, "city": "Graz" if k % 2 else "Linz", "price": 100.0 + k}
        for k in range(16)
    ]
    samples[8]["age"] = math.nan

    def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
        features = torch.stack([batch["age"].nan_to_num() / 50, batch["rooms"]], dim=1).float()
        loss: torch.Tensor = loss_fn(model(features)[:, 0], batch["price"].float())
        return loss

    loss_fn, model = nn.MSELoss(), nn.Linear(2, 1)
    settings = {"loss_fn": loss_fn, "view": midstep.view(target="price")}
    with shown(page, tmp_path, samples, model, loss_of, **settings) as panel:
        heads = panel.get_by_role("columnheader")
        for name in ("Sample", "Target", "Prediction", "Loss", "age", "rooms", "city"):
            expect(heads.filter(has_text=re.compile(f"^{name}$"))).to_be_visible()
        row = panel.get_by_role("row").nth(2)
        expect(row).to_contain_text("Graz")
        cells = row.get_by_role("gridcell")
        expect(cells.nth(1)).to_have_text("109")
        prediction, loss = number(cells.nth(2)), number(cells.nth(3))
        assert loss**0.5 == pytest.approx(abs(prediction - 109), abs=0.02)
        mark = panel.get_by_text("NaN", exact=True).first
        expect(mark).to_have_css("background-color", NAN_LIGHT)
        dialog = open_first(page, panel)
        for fact in ("Target", "108", "Prediction", "Loss", "age", "NaN", "city", "Linz"):
            expect(dialog).to_contain_text(fact)
        assert_nothing_serious(page)


def number(cell: Locator) -> float:
    """What a cell shows, in which a minus may be a sign of its own."""
    return float(cell.inner_text().replace(",", "").replace("−", "-"))


# -- segmentation ---------------------------------------------------------------------------------


def test_segmentation_lays_target_or_prediction_over_the_image(page: Page, tmp_path: Path) -> None:
    masks = torch.zeros(16, 32, 32, dtype=torch.long)
    masks[:, 16:] = 1
    samples = [{"image": torch.full((3, 32, 32), 0.5), "mask": mask} for mask in masks]
    loss_fn = nn.CrossEntropyLoss()

    def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
        loss: torch.Tensor = loss_fn(model(batch["image"]), batch["mask"])
        return loss

    names = ["ground", "road"]
    settings = {"loss_fn": loss_fn, "view": midstep.view(input="image", class_names=names)}
    with shown(page, tmp_path, samples, nn.Conv2d(3, 2, 1), loss_of, **settings) as panel:
        expect(panel.get_by_role("list", name="Classes")).to_contain_text("road")
        slider = panel.get_by_role("slider", name="Opacity of the mask")
        slider.fill("0")
        expect(panel).to_contain_text("Mask 0 %")
        plain = pixel(panel, 0.8)
        assert len(set(plain[:3])) == 1  # grey, as the image
        slider.fill("100")
        expect(panel).to_contain_text("Mask 100 %")
        assert pixel(panel, 0.8)[:3] == [42, 140, 232]  # the first colour of the series
        assert pixel(panel, 0.2) == plain  # the background stays clear
        expect(panel.get_by_role("radio", name="Prediction")).to_be_visible()
        dialog = open_first(page, panel)
        expect(dialog.get_by_role("img", name=re.compile("Mask of sample"))).to_be_visible()
        expect(dialog.get_by_role("list", name="Classes")).to_contain_text("ground")
        expect(page).to_have_url(re.compile("opacity=100"))
        assert_nothing_serious(page)


def pixel(panel: Locator, height: float) -> list[int]:
    """A pixel of the first tile, about at this share of its height."""
    read = """(canvas, height) => {
      const ratio = devicePixelRatio;
      const [x, y] = [20 * ratio, (6 + height * 100) * ratio];
      return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
    }"""
    values: list[int] = panel.locator("canvas").first.evaluate(read, height)
    return values


# -- sounds ---------------------------------------------------------------------------------------


def test_a_sound_is_drawn_and_can_be_played(page: Page, tmp_path: Path) -> None:
    time = torch.arange(4_000) / 8_000
    samples = [(torch.sin(2_000 * time)[None].half(), k % 2) for k in range(16)]
    samples[8][0][0, 100] = math.nan

    def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(model(x.float().nan_to_num()).mean(2), y)

    view = midstep.view(sample_rate=8_000)
    with shown(page, tmp_path, samples, nn.Conv1d(1, 2, 9, 4), loss_of, view=view) as panel:
        expect(panel.locator("canvas")).to_be_visible()
        panel.get_by_role("grid").focus()
        page.keyboard.press("Home")
        expect(panel).to_contain_text("NaN in 1 value")
        dialog = open_first(page, panel)
        expect(dialog).to_contain_text("4,000 values at 8,000 Hz, 500 ms")
        player = dialog.locator("audio")
        page.wait_for_function("document.querySelector('dialog audio')?.duration > 0")
        assert player.evaluate("(player) => player.duration") == pytest.approx(0.5)
        assert str(player.get_attribute("src")).startswith("blob:")
        assert_nothing_serious(page)
