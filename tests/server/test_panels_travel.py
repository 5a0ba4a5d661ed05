from __future__ import annotations

import torch

from midstep.control import Panel, StepData
from midstep.server.debug.command_schemas import StateOut
from midstep.server.step_views.step_schemas import StepDataKeys, StepDataOut


def push(served, panels, **values):
    """Let the loop stand at a step whose data is this."""
    shown = StepData(step=1, values=values, panels=panels)
    served.controller._state.captures.data.published = shown


def test_keys_say_how_each_wants_to_be_shown(served):
    panel = Panel(kind="table", title="Layers")
    push(served, {"layers": panel}, layers={"norm": torch.ones(2)}, plain=3)
    keys = served.ask("GET", "/debug/step_data/keys").json()
    StepDataKeys.model_validate(keys)
    assert keys["keys"] == ["layers", "plain"]
    assert keys["panels"] == {"layers": panel.describe(), "plain": None}
    state = served.ask("GET", "/debug/state").json()
    assert StateOut.model_validate(state).step_data_panels == {"layers": "table"}


def test_an_entry_brings_its_panel_along(served):
    panel = Panel(kind="matrix", scale="similarity")
    push(served, {"cosines": panel}, cosines=torch.eye(2))
    entry = served.ask("GET", "/debug/step_data/cosines").json()
    StepDataOut.model_validate(entry)
    assert (entry["panel"], entry["fits"], entry["note"]) == (panel.describe(), True, None)


def test_a_hint_that_does_not_fit_is_a_note_and_the_data_comes(served):
    push(served, {"cosines": Panel(kind="matrix")}, cosines=[1, 2])
    entry = served.ask("GET", "/debug/step_data/cosines").json()
    StepDataOut.model_validate(entry)
    assert (entry["data"], entry["fits"]) == ([1, 2], False)
    assert "matrix" in entry["note"]


def test_data_that_cannot_even_be_looked_at_is_a_note_too(served):
    class Odd(dict[str, object]):
        def items(self):
            raise RuntimeError("no")

    push(served, {"odd": Panel(kind="table")}, odd=Odd(a=1))
    entry = served.ask("GET", "/debug/step_data/odd").json()
    assert entry["fits"] is False
    assert "could not be checked" in entry["note"]
