"""Train a loop under a session: from composed settings to a finished run.

Model and data are built and checked first; only then the run directory appears, with the settings
in `.hydra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from midstep.core import set_all_seeds
from midstep.core.errors import ConfigError
from midstep.core.files.storage import make_subfolder, replace_bytes
from midstep.core.moments import Moment
from midstep.data.sources.dataloaders import load_source, make_loaders
from midstep.loops.composed.auto_batch_size import largest_batch_size, with_batch_size
from midstep.loops.composed.step_profile import StepProfile
from midstep.loops.config.composed_config import ComposedConfig, as_composed
from midstep.loops.config.trainer_config import choose_device
from midstep.loops.loop_registry import find_loop
from midstep.monitoring import FigureSession, get_enabled_families
from midstep.session import Run, Session

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.composed.loop_parts import LoopParts
    from midstep.loops.config.train_config import TrainConfig
    from midstep.loops.config.trainer_config import TrainerConfig
    from midstep.session.fit.fit_loop import EpochHook
    from midstep.session.fit.trainer import Trainer

SAVE_DIR = "outputs/runs"
RunResume = Literal["never", "auto", "must"]


@dataclass(frozen=True, kw_only=True)
class RunLocation:
    """Where a run is written, and whether it continues one that is there."""

    name: str
    """Name of the run, given by the user."""
    save_dir: Path = Path(SAVE_DIR)
    """Folder of the run directories."""
    run_name: str | None = None
    """Exactly `save_dir/run_name`; if left out, a new directory named by time and name."""
    run_dir: Path | None = None
    """The directory itself, if a launcher made it."""
    run_id: str | None = None
    """Chosen by a launcher."""
    resume: RunResume = "never"
    """Whether to continue the run that is there."""

    @classmethod
    def from_settings(cls, composed: ComposedConfig, **changes: Any) -> RunLocation:
        """The location that the settings name, with changes."""
        folders, given = composed.folders, dict(changes)
        given.setdefault("name", folders.job.name or composed.config.loop.name)
        if folders.run.dir is not None and not given.keys() & {"run_dir", "run_name"}:
            path = Path(folders.run.dir)
            given.update(save_dir=path.parent, run_name=path.name)
        return cls(**given)


class LoopTraining:
    """One training: settings, data, parts and loaders, all checked.

    Args:
        config: the settings, in any form that `as_composed` takes.

    Raises:
        ConfigError: settings, data or parts do not fit; nothing was written.
    """

    def __init__(self, config: Any) -> None:
        composed = as_composed(config)
        settings = composed.config
        self.data: SourceData = load_source(settings.data)
        self.found_batch_size: int | None = None
        """The size that `data.batch_size=auto` found."""
        if settings.data.batch_size == "auto":
            # On parts of its own: a loop may count its steps by the size, or keep state of a step.
            trial = self._build(with_batch_size(composed, 1).config)
            device = torch.device(choose_device(settings.phase1.trainer.device))
            self.found_batch_size = largest_batch_size(trial, self.data, device)
            composed = with_batch_size(composed, self.found_batch_size)
        self.composed = composed
        self.parts = self._build(composed.config)
        for moment in settings.logging.moments:  # refuses an unknown family before a run
            get_enabled_families(settings.logging, self.parts.families, moment)
        self.train_loader, self.val_loader, self.test_loader = make_loaders(
            self.data, self.composed.config.data, seed=settings.phase1.trainer.seed
        )
        self._session: Session | None = None
        self._profile: StepProfile | None = None
        self._epoch_hooks: list[EpochHook] = []

    def _build(self, settings: TrainConfig) -> LoopParts:
        """The parts of the loop, with the same weights each time."""
        set_all_seeds(settings.phase1.trainer.seed)
        return find_loop(settings.loop.name).load_build()(settings, self.data)

    def on_epoch(self, hook: EpochHook) -> None:
        """Call `hook` with an `EpochRecord` after each epoch, as `Session.on_epoch` does."""
        self._epoch_hooks.append(hook)

    @property
    def trainer(self) -> TrainerConfig:
        """How it is trained."""
        return self.composed.config.phase1.trainer

    @property
    def session(self) -> Session:
        """The session of the open run."""
        if self._session is None:
            raise ConfigError("the training has no run yet; call open_run first")
        return self._session

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the run's header records."""
        composed = self.composed
        return {
            "recipe": composed.config.loop.name,
            **composed.resolved,
            "overrides": list(composed.overrides),
            "data_meta": self.data.meta,
        }

    def open_session(
        self, location: RunLocation, controller: DebugController | None = None
    ) -> Session:
        """The session of this training. Its run is opened when it is first needed."""
        parts = self.parts
        if location.run_dir is not None and location.resume != "never":
            raise ConfigError("run_dir is the directory of a new run; leave out resume")
        config = self.trainer.session_config(
            save_dir=location.save_dir,
            run_name=location.run_name,
            resume=location.resume,
            **parts.session_settings,
        )
        session = Session(
            parts.model,
            parts.optimizer,
            None,
            self.train_loader,
            self.val_loader,
            self.test_loader,
            scheduler=build_scheduler(parts.optimizer, self.trainer, self._total_steps()),
            controller=controller,
            config=config,
            extra_state=parts.extra_state,
            run=lambda trainer: self._open_run(session, trainer, location),
        )
        session.training_step(parts.training_step)
        session.validation_step(parts.validation_step)
        return session

    def open_run(
        self, *, name: str, run_dir: Path | None = None, run_id: str | None = None, **where: Any
    ) -> Run:
        """The run of this training; `run_to_end` trains in it."""
        location = RunLocation.from_settings(
            self.composed, name=name, run_dir=run_dir, run_id=run_id, **where
        )
        return self.open(location)

    def open(self, location: RunLocation, controller: DebugController | None = None) -> Run:
        """The same for a location."""
        session = self.open_session(location, controller)
        try:
            run = session.run
            if self.parts.begin is not None:
                self.parts.begin(session)
        except BaseException:
            session.close()
            raise
        self._session = session
        if self.trainer.profile == "steps":
            self._profile = StepProfile(session)
            self._profile.begin()
        return run

    def run_to_end(self, run: Run) -> dict[str, Any]:
        """Train in `run` to the last epoch or until it is stopped, then measure the test loss.

        Returns:
            `best_val_loss`, `test_loss` (both None if it was stopped early), `run_dir` and more.
        """
        session = self.session
        if session.run is not run:
            raise ConfigError("run_to_end needs the run that open_run returned")
        for hook in self._epoch_hooks:
            session.on_epoch(hook)
        logging, families = self.composed.config.logging, self.parts.families
        with session, FigureSession(run.dir, logging, families, run.event):
            try:
                if self.parts.total_steps is None:
                    session.fit(epochs=self.trainer.epochs)
                else:
                    session.fit(steps=self.parts.total_steps)
            finally:  # a run may fail, or be shorter than what is profiled
                if self._profile is not None:
                    self._profile.end()
            return self._result(session)

    def _result(self, session: Session) -> dict[str, Any]:
        run, training = session.run, session.trainer
        test = session.test_means
        return {
            "loop": self.composed.config.loop.name,
            "status": run.status,
            "epochs": training.epoch,
            "steps": training.step,
            "best_val_loss": training.state.progress.best_val_loss,
            "test_loss": None if test is None else test["loss"],
            "test_metrics": {}
            if test is None
            else {name: value for name, value in test.items() if name != "loss"},
            "run_id": run.run_id,
            "run_dir": str(run.dir),
        }

    def _total_steps(self) -> int:
        if self.parts.total_steps is not None:
            return self.parts.total_steps
        per_epoch = -(-len(self.train_loader) // self.trainer.accumulate_steps)
        return self.trainer.epochs * per_epoch

    def _open_run(self, session: Session, trainer: Trainer, location: RunLocation) -> Run:
        run = Run(
            name=location.name,
            save_dir=location.save_dir,
            run_name=location.run_name,
            run_id=location.run_id,
            run_dir=location.run_dir,
            config=self.settings,
            seed=self.trainer.seed,
            controller=session.controller,
            total_steps=self._total_steps(),
            model=self.parts.model,
            data_fingerprint=trainer.state.fingerprints.get("dataset"),
            existing="refuse" if location.resume == "never" else "continue",
        )
        write_hydra_folder(run.dir, self.composed.hydra_texts)
        if self.found_batch_size is not None:
            run.event(
                Moment.INTERVENTION,
                who="system",
                kind="batch_size_found",
                batch_size=self.found_batch_size,
            )
        return run


def write_hydra_folder(run_dir: Path, texts: Mapping[str, str]) -> None:
    """Write the settings of a run as Hydra does, into `.hydra`."""
    folder = make_subfolder(run_dir, ".hydra", mode=0o777)
    for name, text in texts.items():
        replace_bytes(folder / name, text.encode())


def build_scheduler(
    optimizer: torch.optim.Optimizer, trainer: TrainerConfig, total_steps: int
) -> Any:
    """The scheduler that the settings name; None for a constant learning rate."""
    schedules = torch.optim.lr_scheduler
    if trainer.scheduler == "cosine":
        return schedules.CosineAnnealingLR(optimizer, T_max=total_steps)
    if trainer.scheduler == "plateau":
        return schedules.ReduceLROnPlateau(optimizer, factor=0.1, patience=3)
    return None


def train_loop(
    config: Any, controller: DebugController | None = None, location: RunLocation | None = None
) -> dict[str, Any]:
    """Train the loop that the settings name, from the first step to the last; see `run_to_end`.

    Args:
        config: the settings, in any form that `as_composed` takes.
        controller: your own, for breakpoints set before the first step.
        location: where the run is written; if left out, a new directory.
    """
    training = LoopTraining(config)
    run = training.open(location or RunLocation.from_settings(training.composed), controller)
    return training.run_to_end(run)
