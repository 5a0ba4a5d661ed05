"""The commands that a session offers: checkpoints, reset, hyperparameters, test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.control.command_record import CommandSpec
from midstep.control.command_table import NoPayload
from midstep.core.errors import ConfigError
from midstep.session.engine.hparams import HparamsPayload, set_hparams
from midstep.session.engine.resume import changed_fields
from midstep.session.offering import moving, offer

if TYPE_CHECKING:
    from midstep.session.session import Session
    from midstep.session.state.snapshot import Snapshot

__all__ = ["LoadPayload", "register_commands"]


@dataclass(frozen=True, kw_only=True)
class LoadPayload:
    """Which checkpoint to load."""

    step: int | None = None
    """Finished optimizer steps; the newest whole one when left out."""
    timeline: int | None = None
    """Where the step was saved in several; the newest when left out."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < 0
            ):
                raise ConfigError(f"{name} must be a whole number of at least 0, got {value!r}")


def register_commands(session: Session) -> Callable[[], None]:
    """Offer a session's commands on its controller; gives back how to withdraw them."""
    own = _Commands(session)
    return offer(
        session.controller,
        CommandSpec(
            name="save_checkpoint", payload=NoPayload, run=own.save, help="Write a checkpoint now."
        ),
        moving(
            name="load_checkpoint", payload=LoadPayload, run=own.load, help="Go to a checkpoint."
        ),
        moving(
            name="reset_session", payload=NoPayload, run=own.reset, help="Go back to before step 0."
        ),
        CommandSpec(
            name="set_hparams",
            payload=HparamsPayload,
            run=own.set,
            help="Set learning rate and kin.",
        ),
        CommandSpec(
            name="test_now", payload=NoPayload, run=own.test, help="Run the test loader now."
        ),
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
