"""Examples in the documents run as they stand, and the tables in them are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import midstep
from midstep.control.breakpoints.rule_catalog import RULES
from midstep.facts import FactsReader, end_state
from midstep.facts.read.media import MediaReader
from midstep.server.step_views.batch_json import describe_samples
from tests.control.loop import IN_VIEW

DOCS = Path(__file__).parents[2] / "docs"


def example(document: str) -> str:
    """The first Python block of a document."""
    found = re.search(r"```python\n(.*?)```", (DOCS / document).read_text(), flags=re.DOTALL)
    assert found, f"{document} has no example"
    return found[1]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Every attached run is watched, each step shown, and kept for the test to look into."""
    monkeypatch.chdir(tmp_path)
    kept: list[midstep.DebugController] = []
    whole = midstep.attach

    def attach(*args, **kwargs):
        control = midstep.DebugController(clock=iter(range(10**6)).__next__)
        control.captures.viewer(*IN_VIEW)
        kept.append(control)
        return whole(*args, controller=control, **kwargs)

    monkeypatch.setattr(midstep, "attach", attach)
    return kept


def run_example(document: str) -> None:
    exec(compile(example(document), document, "exec"), {"__name__": "__main__"})


def test_the_panel_in_ten_lines_is_shown(watched) -> None:
    run_example("how-to/write-a-panel.md")
    (control,) = watched
    shown = control.captures.reader.shown()
    assert set(shown.values) == {"layers", "row norms", "activations", "dead units"}
    assert shown.panels["row norms"].kind == "scatter"
    assert shown.values["row norms"]["weight"].shape == (16,)


def test_the_samples_of_the_page_on_views_are_shown_as_text(watched) -> None:
    run_example("how-to/show-my-samples.md")
    (control,) = watched
    shown = control.captures.cloned_batch.samples(0, 2)
    out = describe_samples(shown)
    assert (out["texts"], out["labels"]) == (
        ["a good film", "a bad bad film"],
        ["positive", "negative"],
    )
    assert set(out["predictions"]) <= {"positive", "negative"}


def test_the_own_panel_takes_ten_lines() -> None:
    start, end = "class RowNorms", "\n\n\n"
    lines = example("how-to/write-a-panel.md").split(start)[1].split(end)[0].splitlines()
    assert len([line for line in lines if line.strip()]) <= 10


def test_the_rules_are_armed_and_trip_on_nothing(watched) -> None:
    run_example("reference/rules.md")
    (control,) = watched
    armed = {each.condition.rule: (each.action, each.hits) for each in control.list_breakpoints()}
    assert armed == {"nonfinite_layer": ("pause", 0), "dead_relus": ("mark", 0)}
    (directory,) = Path("outputs/runs").iterdir()
    assert end_state(directory).state == "finished"
    assert not [e for e in FactsReader(directory).events() if e.get("kind") == "hook_off"]


def test_the_document_has_every_rule_with_its_limits_and_words() -> None:
    text = " ".join((DOCS / "reference/rules.md").read_text().split())  # lines are wrapped
    for name, spec in RULES.items():
        assert f"| `{name}` | {spec.words(spec.defaults)} |" in text, name
        assert spec.means in text, name


def test_the_document_has_every_hook() -> None:
    text = (DOCS / "how-to/write-a-panel.md").read_text()
    for name in set(midstep.hooks.__all__) - {"Hook"}:
        assert f"`{name}(" in text, name


LOOPS = re.findall(
    r"## ([^\n]*)\n(?:(?!## ).)*?<!-- runs: in test_the_loops_[^\n]*\n```python\n(.*?)```",
    (DOCS / "how-to/any-loop.md").read_text(),
    re.DOTALL,
)


@pytest.mark.parametrize("code", [code for _, code in LOOPS], ids=[title for title, _ in LOOPS])
def test_the_loops_of_the_page_run_and_are_resumed(code, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        exec(compile(code, "any-loop.md", "exec"), {"__name__": "__main__"})
    (directory,) = Path("outputs/runs").iterdir()
    assert end_state(directory).state == "finished"
    said = capsys.readouterr().err
    assert "continues at step" in said
    assert "will not be exact" not in said


def test_the_page_of_loops_has_one_for_each_shape() -> None:
    assert len(LOOPS) == 5


def test_the_media_of_the_page_are_what_it_says(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_example("how-to/log-media.md")
    (directory,) = Path("outputs/runs").iterdir()
    kinds = {each.index.key: each.index.kind for each in MediaReader(directory).groups()}
    assert kinds == {"samples": "image", "note": "text", "pixels": "histogram", "worst": "table"}
