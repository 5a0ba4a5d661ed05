"""The debugger's panels: what they show is what the training did, checked against the training."""

from __future__ import annotations

import csv
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from midstep.control import DebugController, Field, Panel
from midstep.live import serve
from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import BclConfig, Condition
from midstep.session import Run
from midstep.session.hooks import Hook
from tests.control.loop import until

pytestmark = pytest.mark.browser

STEPS = 100_000
WATCHED = [0, 15, 31, 47, 63]
COLUMNS = {
    "win_rate": "Win rate",
    "grad_magnitude": "Gradient",
    "som_magnitude": "SOM",
    "feature_novelty": "Novelty",
    "effective_win": "Eff. win",
    "gradient_weight": "Grad. w",
    "contender_weight": "Cont. w",
    "attraction_weight": "Attr. w",
    "mean_activation": "Activation",
}


class Training(BclTraining):
    """The recipe, with panels of a user's own beside it."""

    def capture_features(self, control: DebugController, images: torch.Tensor) -> None:
        super().capture_features(control, images)
        norms = self.model.decoder.weight.detach().norm(dim=0)
        mine = Panel(kind="table", title="My norms", fields={"norm": Field(label="Norm")})
        control.capture_step_data("mine", {"norm": norms}, panel=mine)
        wrong = Panel(kind="scatter", x="nowhere", y="norm")
        control.capture_step_data("wrong", {"norm": norms}, panel=wrong)


@dataclass
class Served:
    """A training of this process and the address of its page."""

    url: str
    run: Run
    training: Training

    def tab(self, name: str) -> str:
        return self.url.replace("/#", f"/live?tab={name}#")

    @property
    def weights(self) -> torch.Tensor:
        return self.training.model.encoder.weight.detach()

    def tensors(self) -> dict[str, torch.Tensor]:
        assert self.training.bcl is not None
        return self.training.bcl.last_tensors()


@contextmanager
def served(folder: Path, condition: Condition = "novelty") -> Iterator[Served]:
    """Paused before its first step; seeded, so that every test sees the same features."""
    controller = DebugController()
    controller.pause()
    training = Training(BclConfig(condition=condition, steps=STEPS))
    with (
        Run(
            name="bcl",
            save_dir=folder,
            controller=controller,
            model=training.model,
            total_steps=STEPS,
        ) as run,
        serve(run, port=0) as page,
    ):
        assert page.url is not None
        thread = threading.Thread(target=training.train, args=(run,), name="training")
        thread.start()
        try:
            yield Served(page.url, run, training)
        finally:
            controller.stop()
            thread.join(60)


@pytest.fixture
def bcl(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "runs") as made:
        yield made


def step(page: Page, to: int) -> None:
    page.get_by_role("button", name="Step", exact=True).first.click()
    expect_step(page, to)


def expect_step(page: Page, to: int) -> None:
    reached = re.compile(rf"Step\s*{to:,}\s*/")
    expect(page.get_by_role("banner")).to_contain_text(reached)


def saved(page: Page, subject: str, kind: str, folder: Path) -> str:
    """What a panel exports."""
    page.get_by_role("button", name=f"Export {subject}").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile(kind)).click()
    target = folder / download.value.suggested_filename
    download.value.save_as(target)
    return target.read_text()


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def expect_order(table: Locator, ids: list[int]) -> None:
    """Ids of the rows in sight, from the top."""
    cells = table.locator("[role=row][aria-selected] [role=gridcell]:first-child")
    for place, row in enumerate(ids):
        expect(cells.nth(place)).to_have_text(str(row))


def test_the_metrics_table_sorts_by_each_column_and_shows_the_step_metrics(
    bcl: Served, page: Page, tmp_path: Path
) -> None:
    page.goto(bcl.url)
    expect_step(page, 0)
    for number in (1, 2):  # no reload between
        step(page, number)
        metrics = page.get_by_role("region", name="Metrics")
        expect(metrics.locator(f"[data-step='{number}']")).to_be_visible()
        table = rows(saved(page, "Metrics", "CSV", tmp_path))
        assert bcl.training.bcl is not None
        wanted = bcl.training.bcl.get_step_metrics()
        assert set(COLUMNS) <= set(wanted)
        for name, column in wanted.items():
            assert [float(row[name]) for row in table] == column.tolist(), name
    total = sum(float(row["grad_magnitude"]) for row in table)
    assert total == pytest.approx(bcl.tensors()["grad_mask"].sum().item(), rel=1e-5)

    grid = metrics.get_by_role("grid")
    for name, title in COLUMNS.items():
        head = metrics.get_by_role("columnheader", name=title)
        if head.get_attribute("aria-sort") == "descending":
            head.get_by_role("button").click()
            expect(head).to_have_attribute("aria-sort", "ascending")
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "descending")
        values = np.array([float(row[name]) for row in table])
        order = np.argsort(-values, kind="stable").tolist()
        expect_order(grid, order[:6])
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "ascending")
        expect_order(grid, np.argsort(values, kind="stable").tolist()[:6])
    rate = np.array([float(row["win_rate"]) for row in table])
    header = metrics.locator("header")
    expect(header).to_contain_text(f"{(rate < 0.01).sum()} dead")
    expect(header).to_contain_text(f"{(rate > 0.05).sum()} winner")
    metrics.get_by_role("textbox").fill("win_rate > 0.05")
    expect(header).to_contain_text(f"{(rate > 0.05).sum()} of 64 rows")


A_POINT = """canvas => {
  // Drawn for the room there is, beside what belongs there.
  const { clientWidth, nextElementSibling } = canvas.parentElement;
  if (nextElementSibling === null || canvas.clientWidth !== clientWidth) return null;
  // A pixel of a point: the axes and grid are grey.
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = data.slice(i, i + 3);
    if (data[i + 3] === 255 && Math.max(r, g, b) - Math.min(r, g, b) > 70)
      return [(i / 4 % width) / devicePixelRatio, Math.floor(i / 4 / width) / devicePixelRatio];
  }
}"""
IS_DRAWN = """canvas => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


def test_a_click_on_a_feature_shows_its_step_in_four_pictures(
    bcl: Served, page: Page, tmp_path: Path
) -> None:
    page.goto(bcl.tab("features"))
    expect_step(page, 0)
    expect(page.get_by_role("region", name="Forces")).to_contain_text("Take one step")
    before = bcl.weights.clone()
    step(page, 1)
    forces = page.get_by_role("region", name="Forces")
    expect(forces).to_contain_text(re.compile(r"\d+ oppose"))
    scatter = forces.locator("canvas").first
    x, y = page.wait_for_function(A_POINT, arg=scatter.element_handle()).json_value()
    scatter.click(position={"x": x + 2, "y": y + 3})
    detail = forces.locator("[data-feature]")
    feature = int(detail.get_attribute("data-feature") or "")
    expect(forces).to_contain_text(f"Row {feature}")
    for name in ("weight", "gradient", "som", "combined"):
        picture = forces.locator(f"canvas[data-force={name}]")
        expect(picture).to_have_attribute("aria-label", re.compile("28 by 28, ±"))
        assert picture.evaluate(IS_DRAWN) > 8

    shown = json.loads(saved(page, "forces", "JSON", tmp_path))["selected"]
    combined, gradient, som, weight = (
        np.array(shown[name]) for name in ("combined", "gradDelta", "somDelta", "weight")
    )
    assert np.isfinite([combined, gradient, som, weight]).all()
    np.testing.assert_array_equal(combined, gradient + som)
    np.testing.assert_array_equal(weight, bcl.weights[feature].numpy())
    np.testing.assert_allclose(combined, weight - before[feature].double().numpy(), atol=1e-12)
    np.testing.assert_array_equal(som, bcl.tensors()["som_delta"][feature].numpy())
    cosine = gradient @ som / np.linalg.norm(gradient) / np.linalg.norm(som)
    told = forces.locator("[data-cosine]")
    assert float(told.get_attribute("data-cosine") or "") == pytest.approx(cosine, abs=1e-9)
    expect(told).to_contain_text(f"{cosine:.2f}".replace("-", "−"))

    step(page, 2)
    expect(forces.locator("[data-feature][data-step='2']")).to_be_visible()


def cosines(vectors: torch.Tensor) -> Any:
    unit = vectors.double() / vectors.double().norm(dim=1, keepdim=True)
    return (unit @ unit.T).numpy()


def matrix_of(table: list[dict[str, str]]) -> tuple[list[int], Any]:
    labels = [int(row["row"]) for row in table]
    return labels, np.array([[float(row[str(label)]) for label in labels] for row in table])


def test_the_cosine_matrices_match_a_direct_computation(
    bcl: Served, page: Page, tmp_path: Path
) -> None:
    page.goto(bcl.tab("features"))
    expect_step(page, 0)
    step(page, 1)
    panel = page.get_by_role("region", name="Cosine similarity")
    expect(panel.locator("[data-matrix=right] [data-step='1']")).to_be_visible()
    for side, kind, wanted in (
        ("left", "CSV, Weights", cosines(bcl.weights)),
        ("right", "CSV, Targets", cosines(bcl.tensors()["som_targets"])),
    ):
        labels, matrix = matrix_of(rows(saved(page, "similarity", kind, tmp_path)))
        assert labels == list(range(64))
        np.testing.assert_allclose(matrix, wanted, atol=1e-6)
        others = wanted[~np.eye(64, dtype=bool)]
        for name, value in (("mean", others.mean()), ("std", others.std()), ("max", others.max())):
            figure = panel.locator(f"[data-matrix={side}] [data-figure={name}]")
            assert float(figure.get_attribute("data-value") or "") == pytest.approx(value, abs=1e-6)

    panel.get_by_role("radio", name="Win rate").click()
    assert bcl.training.bcl is not None
    rate = bcl.training.bcl.get_step_metrics()["win_rate"]
    order = torch.argsort(-rate.double(), stable=True).tolist()
    page.wait_for_url(re.compile("rows="))
    heat = panel.locator("[data-matrix=left] canvas")
    heat.hover(position={"x": 10, "y": 6})  # the second row, the first column
    expect(panel.locator("[data-matrix=left]")).to_contain_text(f"{order[1]} × {order[0]}")
    labels, matrix = matrix_of(rows(saved(page, "similarity", "CSV, Weights", tmp_path)))
    assert labels == order
    np.testing.assert_allclose(matrix, cosines(bcl.weights[order]), atol=1e-6)


def points(page: Page, folder: Path) -> dict[str, list[int]]:
    """Steps of each line's points, pairs left out."""
    found: dict[str, list[int]] = {}
    for row in rows(saved(page, "trajectories", "CSV", folder)):
        found.setdefault(row["feature"], []).append(int(row["step"]))
    return {name: steps for name, steps in found.items() if "×" not in name}


def test_watched_features_are_followed_and_a_removed_one_keeps_its_line(
    bcl: Served, page: Page, tmp_path: Path
) -> None:
    page.goto(bcl.tab("features"))
    expect_step(page, 0)
    panel = page.get_by_role("region", name="Trajectories")
    expect(panel).to_contain_text("Nothing is watched")
    panel.get_by_role("button", name="Watch", exact=True).click()
    panel.get_by_role("textbox").fill("0, 15, 31, 47, 63")
    page.keyboard.press("Enter")
    expect(panel.get_by_role("button", name="Stop watching 63")).to_be_visible()
    field = page.get_by_role("textbox", name="How many steps")
    field.fill("20")
    field.press("Enter")
    expect_step(page, 20)
    expect(panel.locator("[data-points='20']")).to_be_visible()
    assert points(page, tmp_path) == {str(row): list(range(1, 21)) for row in WATCHED}

    panel.get_by_role("button", name="Stop watching 31").click()
    expect(panel.get_by_role("button", name="Stop watching 31")).to_have_count(0)
    expect(panel.get_by_role("img", name=re.compile("^Win rate.* 5 lines"))).to_be_visible()
    page.get_by_role("link", name="Runs").click()  # still watching, and asking for less
    bcl.run.controller.run_until(step=1020)
    until(lambda: bcl.run.step == 1020, bcl.run.controller, patience_s=300)
    page.go_back()
    expect_step(page, 1020)
    expect(panel.locator("[data-points='1020']")).to_be_visible()
    found = points(page, tmp_path)
    assert {name: len(steps) for name, steps in found.items()} == {
        str(row): 20 if row == 31 else 1020 for row in WATCHED
    }
    panel.get_by_role("radio", name="Pairs").click()
    expect(panel.get_by_role("img", name=re.compile("^Pairs.* 10 lines"))).to_be_visible()


def test_a_panel_of_ones_own_shows_with_no_code_of_the_page(bcl: Served, page: Page) -> None:
    page.goto(bcl.tab("panels"))
    expect_step(page, 0)
    back = page.get_by_role("button", name="Back", exact=True)
    expect(back).to_have_attribute("aria-disabled", "true")  # a loop without a session
    step(page, 1)
    mine = page.get_by_role("region", name="My norms")
    expect(mine.get_by_role("columnheader", name="Norm")).to_be_visible()
    expect(mine).to_contain_text("64 rows")
    wrong = page.get_by_role("region", name="wrong")
    wrong.scroll_into_view_if_needed()
    expect(wrong).to_contain_text("the scatter needs a column nowhere")
    expect(wrong.get_by_role("columnheader", name="norm")).to_be_visible()


class Broken(Hook):
    """A hook of a user's that does not get far."""

    key = "ranks"

    def after_step(self, model: torch.nn.Module) -> Any:
        raise ValueError(f"no rows in {type(model).__name__}")


def test_a_hook_that_raises_is_told_on_the_page_once(bcl: Served, page: Page) -> None:
    bcl.run.show(Broken())
    page.goto(bcl.tab("step"))
    expect_step(page, 0)
    step(page, 1)
    messages = page.get_by_role("region", name="Messages")
    expect(messages).to_contain_text(
        "Hook ranks was switched off. It raised ValueError: no rows in"
    )
    messages.get_by_role("button", name="Close message").click()
    step(page, 2)
    expect(messages).not_to_contain_text("ranks")


def test_the_control_condition_answers_the_same_panels(tmp_path: Path, page: Page) -> None:
    with served(tmp_path / "runs", "control") as control:
        page.goto(control.tab("features"))
        expect_step(page, 0)
        step(page, 1)
        forces = page.get_by_role("region", name="Forces")
        expect(forces).to_contain_text("64 neutral")
        # One force alone: by feature, since against nothing it would be a flat line.
        alone = re.compile("^Gradient magnitude of 64 rows")
        expect(forces.get_by_role("img", name=alone)).to_be_visible()
        right = page.locator("[data-matrix=right]")
        expect(right).to_contain_text("Gradient delta")
        expect(right.locator("[data-step='1']")).to_be_visible()


def set_rule(page: Page, action: str) -> Locator:
    """A rule that the first dozen steps break, set in the dialog."""
    breakpoints = page.get_by_role("region", name="Breakpoints")
    breakpoints.get_by_role("button", name="Add").click()
    dialog = page.get_by_role("dialog", name="Add breakpoint")
    dialog.get_by_label("Kind of condition").select_option("Loss is not falling")
    dialog.get_by_label("Limit").fill("0.99")
    dialog.get_by_label("Window").fill("5")
    dialog.get_by_label("What it does").select_option(action)
    dialog.get_by_role("button", name="Add breakpoint").click()
    expect(dialog).to_have_count(0)
    return breakpoints


def test_a_rule_stops_or_marks_the_run_and_says_why(bcl: Served, page: Page) -> None:
    page.goto(bcl.url)
    expect_step(page, 0)
    breakpoints = set_rule(page, "Only mark it on the chart")
    expect(breakpoints).to_contain_text("0 marks")
    breakpoints.get_by_role("button", name=re.compile("About loss is not falling")).click()
    expect(page.get_by_role("dialog", name=re.compile("About"))).to_contain_text("What to try")
    page.keyboard.press("Escape")
    set_rule(page, "Pause the run")
    page.get_by_role("button", name="Resume", exact=True).first.click()
    expect(page.get_by_role("status").filter(has_text="Loss is not falling")).to_be_visible()
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("dialog", name="Explanation")).to_contain_text("Usual causes")
    # At a stop, breakpoints share their place with what changed before it.
    page.get_by_role("radio", name="Breakpoints 2").click()
    expect(page.get_by_role("list", name="Breakpoints")).to_contain_text("1 mark")
    marks, stops = bcl.run.controller.list_breakpoints()
    assert (marks.action, stops.action) == ("mark", "pause")
    assert marks.hits == stops.hits == 1
