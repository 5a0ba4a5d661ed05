"""The example of docs/reference/controller.md runs as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "controller.md"


def test_the_loop_of_the_document_records_its_steps() -> None:
    code = DOCUMENT.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, DOCUMENT.name, "exec"), names)
    state = names["control"].get_state()
    assert (state["step"], state["state"], state["total_steps"]) == (20, "finished", 20)
    assert "count_parameters" in state["offers"]
    assert len(names["control"].get_trajectories()[0]) == 20
