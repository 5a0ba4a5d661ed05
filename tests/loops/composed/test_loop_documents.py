"""The worked examples on loops of our own and on composed settings run as they are printed."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.loops import compose, loop_registry
from midstep.loops.loop_registry import loops, unregister_loop

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[3] / "docs"


def run_blocks(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "my_loops"}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "document", "exec", dont_inherit=True), names)
    return names


def test_the_loop_of_the_document_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "extend.md").read_text(encoding="utf-8")
    section = text.split("\n## A loop\n")[1].split("\n## ")[0]
    # Dataclasses look their module up by its name.
    monkeypatch.setitem(__import__("sys").modules, "my_loops", __import__("types"))
    try:
        names = run_blocks(section)
    finally:
        unregister_loop("pca")
    result = names["result"]
    assert (result["status"], result["loop"]) == ("finished", "pca")
    assert result["best_val_loss"] < 0.1
    # The same loop from another package, beside one that is broken.
    monkeypatch.setitem(__import__("sys").modules, "my_loops", type("M", (), names))
    entries = [
        EntryPoint("pca", "my_loops:pca", loop_registry.GROUP),
        EntryPoint("broken", "my_loops:missing", loop_registry.GROUP),
    ]
    monkeypatch.setattr(loop_registry, "entry_points", lambda group: entries)
    loop_registry._from_entry_points.cache_clear()
    try:
        assert loops()["pca"] is names["pca"]
        assert "broken" not in loops()
        composed = compose(["loop=pca", "loop.components=3", "data=digits"])
        assert isinstance(composed.config.loop, names["PcaSettings"])
    finally:
        loop_registry._from_entry_points.cache_clear()


def test_the_page_on_training_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how-to/train-with-settings.md").read_text(encoding="utf-8")
    result = run_blocks(page)["result"]
    assert result["status"] == "finished"
    assert (Path(result["run_dir"]) / ".hydra" / "overrides.yaml").is_file()
