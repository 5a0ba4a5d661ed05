from __future__ import annotations

import json

import pytest
import torch

from midstep.control import DebugController, Field, Level, Panel, Sort, Status
from midstep.control.panels import panel_problem
from midstep.core.errors import ConfigError
from tests.control.loop import IN_VIEW

TABLE = Panel(
    kind="table",
    title="Features",
    label="name",
    fields={"rate": Field(label="Win rate", precision=3, unit="%")},
    status=Status(
        field="rate",
        levels=(Level(below=0.01, word="dead", tone="bad"), Level(above=0.05, word="winner")),
        otherwise=Level(word="contender", tone="warn"),
    ),
    sort=Sort(field="rate"),
    source="encoder.weight",
    shape=(28, 28),
)


def test_a_panel_travels_as_plain_json_with_every_field():
    told = TABLE.describe()
    assert json.loads(json.dumps(told)) == told
    assert told["status"] == {
        "field": "rate",
        "levels": [
            {"below": 0.01, "above": None, "word": "dead", "tone": "bad"},
            {"below": None, "above": 0.05, "word": "winner", "tone": "neutral"},
        ],
        "otherwise": {"word": "contender", "tone": "warn"},
    }
    assert told["sort"] == {"field": "rate", "descending": True}
    assert told["fields"] == {"rate": {"label": "Win rate", "precision": 3, "unit": "%"}}
    assert (told["shape"], told["source"]) == ([28, 28], "encoder.weight")
    assert told.keys() == Panel(kind="text").describe().keys()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Panel(kind="pie"),
        lambda: Panel(kind="table", title=3),
        lambda: Panel(kind="matrix", scale="rainbow"),
        lambda: Panel(kind="images", shape=(1, 2, 3)),
        lambda: Panel(kind="images", shape=(0, 2)),
        lambda: Level(word="dead", tone="red"),
        lambda: Level(word="dead", below=float("nan")),
        lambda: Level(word="dead", above=True),
        lambda: Field(precision=-1),
    ],
)
def test_a_panel_that_cannot_be_is_refused_in_words(make):
    with pytest.raises(ConfigError, match="of a panel"):
        make()


@pytest.mark.parametrize(
    ("panel", "data"),
    [
        (TABLE, {"name": ["a", "b"], "rate": torch.ones(2)}),
        (Panel(kind="scatter", x="a", y="b"), {"a": [1, 2], "b": [3, 4], "c": ("x", "y")}),
        (Panel(kind="matrix"), torch.eye(3)),
        (Panel(kind="matrix"), [[1, 2], [3, 4]]),
        (Panel(kind="matrix"), {"matrix": torch.ones(2, 3), "labels": ["a", "b"]}),
        (Panel(kind="images"), {"images": torch.ones(2, 3, 4, 4), "labels": [1, 2]}),
        (Panel(kind="images"), torch.ones(2, 4, 4)),
        (Panel(kind="series"), {"norm": 0.5, "rate": torch.tensor(1.0)}),
        (Panel(kind="series"), {"norm": [0.5, 0.6], "rate": torch.ones(2)}),
        (Panel(kind="text"), "all is well"),
    ],
)
def test_data_of_the_announced_kind_fits(panel, data):
    assert panel_problem(panel, data) is None


@pytest.mark.parametrize(
    ("panel", "data", "why"),
    [
        (TABLE, {"rate": torch.ones(2)}, "column name"),
        (TABLE, {"name": ["a", "b"], "rate": torch.ones(3)}, "same length"),
        (TABLE, torch.ones(3), "shape"),
        (TABLE, {}, "columns"),
        (Panel(kind="scatter"), {"a": [1, 2]}, "x and y"),
        (Panel(kind="matrix"), torch.ones(3), "matrix"),
        (Panel(kind="matrix"), [[1, 2], [3]], "matrix"),
        (Panel(kind="matrix"), {"matrix": torch.eye(2), "labels": ["a"]}, "labels"),
        (Panel(kind="images"), torch.ones(2, 7, 4, 4), "images"),
        (Panel(kind="images"), {"images": torch.ones(2, 4, 4), "labels": [1]}, "labels"),
        (Panel(kind="series"), {"norm": "high"}, "numbers"),
        (Panel(kind="text"), 3, "text"),
    ],
)
def test_a_hint_that_does_not_fit_is_said(panel, data, why):
    assert why in (panel_problem(panel, data) or "")


def test_the_hint_stays_with_the_step_data_it_came_with():
    controller = DebugController()
    with controller.captures.viewer(*IN_VIEW):
        controller.boundary.enter()
        controller.capture_step_data("rates", {"rate": [0.5]}, panel=Panel(kind="table"))
        controller.capture_step_data("plain", 1)
        controller.wait_if_paused()
    shown = controller.captures.reader.shown()
    assert {key: panel.kind for key, panel in shown.panels.items()} == {"rates": "table"}
    assert controller.get_state()["step_data_panels"] == {"rates": "table"}
    assert controller._state.captures.data.panels == {}


def test_pushing_again_without_a_hint_takes_it_back():
    controller = DebugController()
    controller.capture_step_data("rates", {"rate": [0.5]}, panel=Panel(kind="table"))
    controller.capture_step_data("rates", 1)
    assert controller._state.captures.data.panels == {}


def test_something_else_than_a_panel_is_refused():
    with pytest.raises(ConfigError, match=r"midstep\.Panel"):
        DebugController().capture_step_data("rates", 1, panel={"kind": "table"})
