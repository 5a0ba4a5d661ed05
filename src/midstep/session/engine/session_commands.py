"""`SessionCommands`: the handlers of save, load, reset, back, hyperparameters, test and certify.

They run on the training thread, at a boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from midstep.control.command_record import StepsToPass
from midstep.core.commands.catalog import (
    BACK,
    DETERMINISM_HEALTH,
    LOAD_CHECKPOINT,
    RESET_SESSION,
    SAVE_CHECKPOINT,
    SET_HPARAMS,
    TEST_NOW,
    BackPayload,
    CertifyPayload,
    HparamsPayload,
    LoadPayload,
)
from midstep.core.errors import ConfigError, ControlError
from midstep.core.moments import Moment
from midstep.core.standard_streams import print_notice
from midstep.session.engine.hparams import ReadBack, hparam_values, set_hparams
from midstep.session.engine.recorded_history import refuse_other_run
from midstep.session.engine.resume import changed_fields
from midstep.session.ranks import why_no_moves
from midstep.session.rewind.certificate import certify_in_slices

if TYPE_CHECKING:
    from midstep.core.commands.definition import NoPayload
    from midstep.session.engine.training_engine import TrainingEngine
    from midstep.session.rewind.certificate import Certifiable
    from midstep.session.run import Run
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_parts import TrainingParts


class SessionCommands:
    """The commands that change or save the state of a training.

    Args:
        run: whose controller offers them.
        parts: what is trained.
        engine: takes snapshots; None if the training cannot be saved.
        why_not: the reason why there is no engine.
    """

    def __init__(
        self,
        run: Run,
        parts: TrainingParts,
        engine: TrainingEngine | None,
        *,
        why_not: str | None = None,
    ) -> None:
        self._run, self._parts, self._why_not = run, parts, why_not
        self._open_engine = engine
        self._read_back = ReadBack(parts, self._overridden)

    def register(self) -> Callable[[], None]:
        """Offer the commands that work under every driver; returns how to withdraw them."""
        status = self._run.controller.status
        withdraw = self._run.controller.queue.register_all(
            {
                SAVE_CHECKPOINT: self.save,
                LOAD_CHECKPOINT: self.load,
                SET_HPARAMS: self.set,
                BACK: self.back,
            }
        )
        for definition in (LOAD_CHECKPOINT, SET_HPARAMS, BACK):
            self._run.controller.queue.refuse_if(definition, why_no_moves)
        engine = self._open_engine
        status.offer_rewind(None if engine is None else engine.rewind.describe)

        def undo() -> None:
            withdraw()
            status.offer_rewind(None)
            self._read_back.forget()

        return undo

    @property
    def _engine(self) -> TrainingEngine:
        if self._open_engine is None:
            raise ControlError(f"This loop has no snapshots: {self._why_not}.")
        return self._open_engine

    def save(self, _payload: NoPayload) -> dict[str, Any]:
        """Write a checkpoint of this boundary."""
        path = self._engine.save()
        return {"step": self._engine.state.step, "checkpoint": f"checkpoints/{path.name}"}

    def load(self, payload: LoadPayload) -> dict[str, Any]:
        """Restore a checkpoint of this run."""
        engine = self._engine
        engine.writer.wait()
        store = engine.writer.checkpoints
        if payload.step is None and payload.timeline is None:
            newest = store.newest_valid(refuse=self._refuse)
            if newest is None:
                raise ConfigError("there is no checkpoint yet; save_checkpoint makes one")
            snapshot = newest.snapshot
            engine.record_refused(newest.problems)
        else:
            snapshot = store.load(payload.step, timeline=payload.timeline, refuse=self._refuse)
        self._check_same(snapshot)
        engine.rewind.check_reachable(snapshot)
        engine.go_to(snapshot, cause="load_checkpoint")
        return engine.state.describe_position() | engine.not_kept()

    def _refuse(self, snapshot: Snapshot) -> str | None:
        return refuse_other_run(snapshot, self._run.run_id)

    def _check_same(self, snapshot: Snapshot) -> None:
        """Refuse before anything is restored: half of another training would be none."""
        changed = changed_fields(snapshot.fingerprints, self._engine.state.fingerprints)
        if changed:
            raise ConfigError(
                f"the checkpoint of step {snapshot.step} was taken before {', '.join(changed)} "
                "changed; choose a later one"
            )

    def back(self, payload: BackPayload) -> Any:
        """Go back n steps, or to a step."""
        engine = self._engine
        returned = engine.rewind.back(payload)
        if isinstance(returned, GeneratorType):
            return self._back_in_slices(returned)
        if isinstance(returned, StepsToPass):
            not_kept, answer = engine.not_kept(), returned.answer
            return replace(returned, answer=lambda: {**answer(), **not_kept})
        return returned | engine.not_kept()

    def _back_in_slices(
        self, slices: Generator[float, None, dict[str, Any]]
    ) -> Generator[float, None, dict[str, Any]]:
        result = yield from slices
        return result | self._engine.not_kept()

    def set(self, payload: HparamsPayload) -> dict[str, Any]:
        """Set hyperparameters in every group; returns the old values."""
        old = set_hparams(self._parts, payload)
        new = hparam_values(self._parts, old)
        if self._open_engine is not None:
            self._open_engine.hparams_changed(old, new)
            not_kept = self._open_engine.not_kept()
        else:
            not_kept = {"not_kept": f"this loop has no snapshots: {self._why_not}"}
            who = self._run.controller.queue.submitted_by or "python"
            fields = {"kind": "hparams", "old": old, "new": new, "step": self._run.step}
            self._run.event(Moment.INTERVENTION, who=who, **fields)
        if rates := new.get("lr"):
            self._run.controller.status.describe(lr=float(rates[0]))
        timeline = self._run.facts.timeline
        # Going back restores older values; then there is nothing to read back.
        self._read_back.expect(new, lambda: self._run.facts.timeline == timeline)
        return {"old": old, **not_kept}

    def _overridden(self, expected: dict[str, Any], used: dict[str, Any]) -> None:
        """The loop has set other values before the first step that should use the new ones."""
        step = self._run.step + 1
        pairs = [
            f"{name} to {_words(values)}, and the loop set it to {_words(used[name])} before step "
            f"{step:,}"
            for name, values in expected.items()
        ]
        words = f"set_hparams set {'; '.join(pairs)}: change it where the loop computes it"
        print_notice(words)
        self._run.event(
            Moment.INTERVENTION,
            who="system",
            kind="hparams_overridden",
            step=step,
            new=expected,
            used=used,
            reason=words,
        )
        if rates := used.get("lr"):
            self._run.controller.status.describe(lr=float(rates[0]))


def _words(values: list[Any]) -> str:
    """The values of all parameter groups, equal ones once."""
    return ", ".join(
        dict.fromkeys(f"{each:.6g}" if type(each) is float else str(each) for each in values)
    )


class AdvancingCommands:
    """The commands of a driver that makes the steps itself.

    Args:
        engine: of the open run.
        trainer: makes steps.
        first: the state before step 0; None if the model had lazy parameters then.
        test: evaluates the test loader.
    """

    def __init__(
        self,
        engine: TrainingEngine,
        trainer: Certifiable,
        first: Snapshot | None,
        test: Callable[[], dict[str, float]],
    ) -> None:
        self._engine, self._trainer, self._first, self._test = engine, trainer, first, test

    def register(self) -> Callable[[], None]:
        """Offer them; returns how to withdraw them."""
        queue = self._engine.run.controller.queue
        for definition in (RESET_SESSION, TEST_NOW, DETERMINISM_HEALTH):
            queue.refuse_if(definition, why_no_moves)
        return self._engine.run.controller.queue.register_all(
            {RESET_SESSION: self.reset, TEST_NOW: self.test, DETERMINISM_HEALTH: self.certify}
        )

    def reset(self, _payload: NoPayload) -> dict[str, Any]:
        """Return to the state before step 0."""
        if self._first is None:
            raise ControlError("There is no state before step 0: it could not be taken.")
        self._engine.go_to(self._first, cause="reset_session")
        return self._engine.state.describe_position() | self._engine.not_kept()

    def test(self, _payload: NoPayload) -> dict[str, Any]:
        """Evaluate the test loader."""
        return dict(self._test())

    def certify(self, payload: CertifyPayload) -> Generator[float, None, dict[str, Any]]:
        """Make some steps twice; returns the certificate in the form of a health report."""
        engine, status = self._engine, self._engine.run.controller.status
        status.describe(phase="certifying")
        try:
            certificate = yield from certify_in_slices(self._trainer, payload.steps)
        finally:
            status.describe(phase=None)
        engine.writer.wait()  # the checkpoint of the pause may not be on disk yet
        last = engine.writer.last
        header = {
            "run": engine.run.run_id,
            "step": engine.state.step,
            "epoch": engine.state.epoch,
            "checkpoint": None if last is None else f"checkpoints/{last.name}",
        }
        return {"header": header, "text": certificate.words, "data": certificate.describe()}
