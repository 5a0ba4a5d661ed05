"""The example of the document about runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.facts.stored_runs import write_run

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "compare-runs.md"


def test_the_index_in_the_document_lists_the_best_runs_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    worse = write_run(tmp_path / "outputs" / "runs" / "a", epochs=1, lr=0.1)
    better = write_run(tmp_path / "outputs" / "runs" / "b", epochs=3, lr=0.1)
    write_run(tmp_path / "outputs" / "runs" / "c", epochs=3, lr=0.2)
    example = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)[1]
    exec(compile(example, "compare-runs.md", "exec"), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[better, "finished"], [worse, "finished"]]
