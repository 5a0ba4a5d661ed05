"""`SavedTraining`: the state of an attached training, and the engine that saves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from typing import Any

    from midstep.live.loop_port import LoopPort
    from midstep.live.plain_loop import AttachedLoader
    from midstep.session import Run
    from midstep.session.config import SessionConfig
    from midstep.session.engine.training_engine import TrainingEngine
    from midstep.session.state.training_parts import TrainingParts
    from midstep.session.state.training_state import TrainingState


class SavedTraining:
    """What can be saved of an attached training, and the checkpoint it continues from.

    It is made before the run directory is touched, so that a refusal leaves no directory.

    Args:
        parts: what is trained.
        loader: the loader under its order policy, not patched yet.
        config: whether to resume.
        report: called once for each thing that a resume cannot repeat exactly.

    Raises:
        ConfigError: the loop cannot be resumed, or the checkpoint belongs to another training.
    """

    def __init__(
        self,
        parts: TrainingParts,
        loader: AttachedLoader,
        config: SessionConfig,
        report: Callable[[str], object],
    ) -> None:
        from midstep.session.engine.resume import find_resume_point
        from midstep.session.ranks import RankMeeting, check_can_resume
        from midstep.session.state.generators import search_parts
        from midstep.session.state.training_state import TrainingState, find_loader_generators

        if config.resume != "never" and loader.unordered is not None:
            raise ConfigError(f"resume={config.resume!r} is not possible: {loader.unordered}")
        self._parts, self._why_not, self._report = parts, loader.unordered, report
        check_can_resume(config.resume, parts.model)
        fingerprints = _fingerprints(parts, config)
        self._meeting = RankMeeting.open()
        self.resume_point = find_resume_point(config, fingerprints, meeting=self._meeting)
        self._state: TrainingState | None = None
        if loader.order is not None:
            generators = find_loader_generators(parts.train_loader)
            # Into host memory: how much the user's loop leaves free on the device is unknown.
            self._state = TrainingState(parts, loader.order, generators, config, to_host=True)
            self._state.fingerprints = fingerprints
            # The loader is not patched yet, so its parts are the user's.
            search = search_parts(parts, self._state.known_generators)
            problems = self._state.look_for_state(search)
            for words in [*problems, *self._state.unsaved_state()]:
                report(f"a resume will not be exact: {words}")

    def open_engine(
        self,
        undo: ExitStack,
        run: Run,
        loop: LoopPort,
        inexact: list[str],
        given: Mapping[str, Any],
    ) -> list[str]:
        """Connect the loop with an engine, if its state can be saved, and offer the commands.

        Returns what the user should read about it.
        """
        from midstep.live.loop_replay import LoopReplay
        from midstep.session.engine.rank_resume import compare_weights
        from midstep.session.engine.session_commands import SessionCommands
        from midstep.session.engine.training_engine import TrainingEngine

        engine: TrainingEngine | None = None
        if self._state is not None:
            resumed = None if self.resume_point is None else self.resume_point.snapshot
            replay = LoopReplay(self._state, run.controller, self.resume_point)
            run.offer_tensors(self._parts.model)  # a restore gives lazy parameters their shapes
            if resumed is not None and self._meeting is not None:
                compare_weights(self._meeting, self._parts.model, resumed.step)
            engine = TrainingEngine(
                run, self._state, replay, on_fault="disable", meeting=self._meeting
            )
            undo.callback(engine.close)
            engine.comparisons.given_settings = given
            report = self._report  # not `self`, which has the checkpoint of the resume
            engine.report_moved = lambda words: report(f"a resume will not be exact: {words}")
            engine.open(self.resume_point, inexact)
            engine.name_untracked()
            loop.use(engine, replay)
        commands = SessionCommands(run, self._parts, engine, why_not=self._why_not)
        undo.callback(commands.register())
        return [] if engine is None else engine.notices


def _fingerprints(parts: TrainingParts, config: SessionConfig) -> Mapping[str, Any]:
    """What identifies the training at a resume; data are read only if one is requested."""
    from midstep.session.checkpoint.fingerprint import fingerprints
    from midstep.session.engine.resume import training_fingerprints
    from midstep.session.ranks import why_no_state

    if config.resume == "never":
        model = parts.model if why_no_state(parts.model) is None else None
        known = fingerprints(model=model, optimizer=parts.optimizer, seed=config.seed)
        return {**known, "also": parts.extra_state.names} if parts.extra_state else known
    return training_fingerprints(parts, config)
