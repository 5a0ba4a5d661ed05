"""The commands that a session offers: checkpoints, reset, hyperparameters, test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midstep.core.commands.catalog import (
    LOAD_CHECKPOINT,
    RESET_SESSION,
    SAVE_CHECKPOINT,
    SET_HPARAMS,
    TEST_NOW,
    HparamsPayload,
    LoadPayload,
)
from midstep.core.commands.definition import NoPayload
from midstep.core.errors import ConfigError
from midstep.session.engine.hparams import set_hparams
from midstep.session.engine.resume import changed_fields

if TYPE_CHECKING:
    from midstep.session.session import Session
    from midstep.session.state.snapshot import Snapshot


def register_commands(session: Session) -> Callable[[], None]:
    """Register the commands of a session; return a function that withdraws them."""
    commands = _Commands(session)
    return session.controller.queue.register_all(
        {
            SAVE_CHECKPOINT: commands.save,
            LOAD_CHECKPOINT: commands.load,
            RESET_SESSION: commands.reset,
            SET_HPARAMS: commands.set,
            TEST_NOW: commands.test,
        }
    )


class _Commands:
    """What they do; all on the training thread, at a boundary."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def save(self, _payload: NoPayload) -> dict[str, Any]:
        path = self._session.helm.checkpoint("asked")
        return {"step": self._session.trainer.step, "checkpoint": f"checkpoints/{path.name}"}

    def load(self, payload: LoadPayload) -> dict[str, Any]:
        session = self._session
        session.checkpoint_writer.wait()
        checkpoints = session.checkpoint_writer.checkpoints
        if payload.step is None and payload.timeline is None:
            found = checkpoints.newest_valid()
            if found is None:
                raise ConfigError("there is no checkpoint yet; save_checkpoint makes one")
            snapshot = found.snapshot
            session.helm.tell_refused(found.problems)
        else:
            snapshot = checkpoints.load(payload.step, timeline=payload.timeline)
        self._check_same(snapshot)
        session.helm.go_to(snapshot, cause="load_checkpoint")
        return self._where()

    def _check_same(self, snapshot: Snapshot) -> None:
        """Before anything is put back: half of another training would be none."""
        changed = changed_fields(snapshot.fingerprints, self._session.trainer.fingerprints)
        if changed:
            raise ConfigError(
                f"the checkpoint of step {snapshot.step} was taken before {', '.join(changed)} "
                "changed; choose a later one"
            )

    def reset(self, _payload: NoPayload) -> dict[str, Any]:
        helm = self._session.helm
        helm.go_to(helm.first, cause="reset_session")
        return self._where()

    def set(self, payload: HparamsPayload) -> dict[str, Any]:
        session = self._session
        parts = session.trainer.parts
        old = set_hparams(parts.optimizer, parts.scheduler, payload)
        new = {name: [group[name] for group in parts.optimizer.param_groups] for name in old}
        session.helm.hparams_changed(old, new)
        return {"old": old}

    def test(self, _payload: NoPayload) -> dict[str, Any]:
        return dict(self._session.test())

    def _where(self) -> dict[str, Any]:
        training = self._session.trainer
        return {
            "step": training.step,
            "epoch": training.epoch,
            "cursor": training.cursor,
            "timeline": training.timeline,
        }
