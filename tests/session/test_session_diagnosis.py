"""A session names the sample that its step was skipped for; one rank of several looks at itself."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from midstep.session import Session, SessionConfig
from midstep.session.ranks import RankGroup
from tests.checkers.neutral import wait_until
from tests.live.stopped import ImageLoop


def diagnosed(loop: ImageLoop, folder: Path, **settings: Any) -> dict[str, Any]:
    """The diagnosis of the first step whose loss is not finite."""
    config = SessionConfig(save_dir=folder, **settings)
    with Session(*loop.parts[:2], loop.loss_fn, loop.loader, config=config) as session:
        control = session.controller
        control.add_breakpoint("loss_nonfinite")
        thread = threading.Thread(target=session.fit, kwargs={"epochs": 1})
        thread.start()
        try:
            wait_until(control, lambda _: control.status.diagnosis is not None)
            return dict(control.status.diagnosis or {})
        finally:
            control.stop()
            thread.join(30)


@pytest.mark.parametrize("settings", [{}, {"amp": "bf16"}, {"rewind_steps": 0}], ids=str)
def test_a_skipped_step_is_run_again(tmp_path: Path, settings: dict[str, Any]) -> None:
    why = diagnosed(ImageLoop(), tmp_path, **settings)
    assert why["cause"] == "First non-finite: input of sample 37 → conv1 output"
    assert why["broken_weights"] == 0


def test_an_accumulated_step_names_a_sample_of_any_micro_batch(tmp_path: Path) -> None:
    why = diagnosed(ImageLoop(bad=29), tmp_path, accumulate_steps=4)
    assert (why["samples"], why["positions"], why["batch_size"]) == ([29], [29], 32)


def test_the_loss_is_named_if_every_module_is_finite(tmp_path: Path) -> None:
    loop = ImageLoop(bad=-1)
    loop.loss_fn = lambda out, _y: out.sum() / 0  # type: ignore[assignment]
    why = diagnosed(loop, tmp_path)
    assert why["step"] == 1
    assert why["cause"] == "First non-finite: the loss; every output of the model is finite"
    assert why["layers"][-1]["status"] == "first"


def test_on_one_rank_of_several_no_model_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **_named: Any) -> None:
        raise AssertionError("a module ran alone")

    group = RankGroup(1, 2, None, None)
    alone = SimpleNamespace(find=lambda: group)
    monkeypatch.setattr("midstep.session.diagnosis.stop_diagnosis.RankGroup", alone)
    monkeypatch.setattr("midstep.session.diagnosis.stop_diagnosis.run_again", refuse)
    monkeypatch.setattr("midstep.session.diagnosis.stop_diagnosis.broken_weights", refuse)
    why = diagnosed(ImageLoop(), tmp_path)
    assert why["cause"] == "First non-finite: input of sample 37"
    assert any("This is rank 1 of 2" in each for each in why["notes"])
