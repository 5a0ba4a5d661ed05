"""What the facts of a run say about its checkpoints and changes, over rewinds and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midstep.facts import FactsWriter
from midstep.session.checkpoint.checkpoint_folders import CheckpointName
from midstep.session.engine.recorded_history import RecordedHistory


class Script:
    """Writes the facts of a run, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.attempt = 0
        self.begin()

    def begin(self) -> None:
        if self.attempt:
            self._facts.close()
        self.attempt += 1
        self._facts = FactsWriter(self._folder, run_id="0123456789ab", attempt=self.attempt)
        self._facts.event("on_start", name="a")

    def hparams(self, step: int, **new: float) -> tuple[int, int]:
        values = {name: [value] for name, value in new.items()}
        seq = self._facts.event("on_intervention", kind="hparams", step=step, new=values, old={})
        return self.attempt, seq

    def rewind(self, from_step: int, step: int, **fields: Any) -> None:
        parent = self._facts.timeline
        self._facts.timeline = parent + 1
        self._facts.event(
            "on_intervention",
            kind="rewind",
            from_step=from_step,
            step=step,
            parent=parent,
            **fields,
        )

    def read(self) -> RecordedHistory:
        self._facts.close()
        return RecordedHistory.read(self._folder)


def origin(attempt: int, seq: int, *pending: tuple[int, int]) -> dict[str, Any]:
    return {"attempt": attempt, "seq": seq, "pending": [list(each) for each in pending]}


def steps(changes: Any) -> list[int]:
    return [change.step for change in changes]


def has(history: RecordedHistory, timeline: int, step: int) -> bool:
    return history.has(CheckpointName(timeline, step))


def test_a_run_without_facts_has_an_empty_history(tmp_path):
    history = RecordedHistory.read(tmp_path)
    assert (history.run_id, history.changes) == (None, ())
    assert has(history, 0, 9)


def test_going_back_leaves_the_later_checkpoints_and_changes(tmp_path):
    script = Script(tmp_path)
    script.hparams(50, lr=1.0)
    script.hparams(80, lr=2.0)
    script.hparams(90, lr=3.0)
    script.rewind(100, 80)
    history = script.read()
    assert [has(history, 0, step) for step in (79, 80, 81)] == [True, True, False]
    assert has(history, 1, 500)
    assert steps(history.changes) == [50, 80]  # going back to a step keeps what was changed there


def test_a_loaded_checkpoint_leads_to_its_own_timeline_and_to_what_it_had(tmp_path):
    script = Script(tmp_path)
    before = script.hparams(50, lr=1.0)
    script.hparams(60, lr=2.0)
    script.rewind(100, 40)
    script.rewind(70, 60, source_timeline=0, contains=list(before))
    history = script.read()
    assert [has(history, 0, step) for step in (60, 61)] == [True, False]
    assert not has(history, 1, 50)
    assert steps(history.changes) == [50]  # that of step 60 came after the checkpoint


def test_a_snapshot_has_the_changes_before_it_except_those_that_were_pending(tmp_path):
    script = Script(tmp_path)
    first = script.hparams(50, lr=1.0)
    second = script.hparams(60, weight_decay=2.0)
    history = script.read()
    assert steps(history.pending_changes(None)) == [50, 60]
    assert steps(history.pending_changes(origin(*first))) == [60]
    assert steps(history.pending_changes(origin(*second))) == []
    assert steps(history.pending_changes(origin(2, 1, second))) == [60]
    assert steps(history.pending_changes({})) == []  # an older checkpoint does not say


def test_a_later_change_at_an_earlier_step_replaces_the_recorded_value(tmp_path):
    script = Script(tmp_path)
    script.hparams(100, lr=1.0, weight_decay=2.0)
    script.begin()  # resumed from step 50
    script.hparams(70, lr=3.0)
    history = script.read()
    assert [(change.step, dict(change.new)) for change in history.changes] == [
        (70, {"lr": [3.0]}),
        (100, {"weight_decay": [2.0]}),
    ]
