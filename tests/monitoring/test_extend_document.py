"""The worked example of a plot family in `docs/extend.md` runs as it is printed."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path

from midstep.monitoring import family_registry, plot_families
from tests.monitoring.drawn_runs import figures_of, stored_run

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


def test_the_plot_family_of_the_document_draws(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8").split("\n## A plot family\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    run = stored_run(tmp_path, 2)
    names = {"run_dir": run, "__name__": "my_figures"}
    try:
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
        assert names["drawn"].failures == {}
        assert {name.partition("-")[0] for name in figures_of(run)} == {"losses", "gap"}
    finally:
        family_registry.unregister_family("gap")
    # The same family from another package, beside one that is broken.
    monkeypatch.setitem(__import__("sys").modules, "my_figures", type("M", (), names))
    entries = [
        EntryPoint("gap", "my_figures:gap", family_registry.GROUP),
        EntryPoint("broken", "my_figures:missing", family_registry.GROUP),
    ]
    monkeypatch.setattr(family_registry, "entry_points", lambda group: entries)
    family_registry._from_entry_points.cache_clear()
    try:
        assert plot_families()["gap"] is names["gap"]
        assert "broken" not in plot_families()
    finally:
        family_registry._from_entry_points.cache_clear()
