"""`Session`: trains with midstep's own loop; it can be paused, resumed and rewound."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from midstep.control import Command, DebugController
from midstep.control.samples.view_check import checked_view
from midstep.core.errors import ConfigError, ControlError
from midstep.core.moments import Moment
from midstep.core.random_streams import stream_key
from midstep.core.standard_streams import print_notice
from midstep.data.random_state import seed_global
from midstep.session.config import SessionConfig
from midstep.session.engine.rank_resume import compare_weights
from midstep.session.engine.resume import (
    find_resume_point,
    restore_resume_point,
    training_fingerprints,
)
from midstep.session.engine.session_commands import AdvancingCommands, SessionCommands
from midstep.session.engine.training_engine import TrainingEngine
from midstep.session.fit.fit_loop import EpochHook, FitLoop, StepRecord, run_fit
from midstep.session.fit.trainer import Trainer, TrainerReplay
from midstep.session.hooks import LayerNorms
from midstep.session.influence_command import InfluenceSource, register_influence
from midstep.session.ranks import (
    RankMeeting,
    check_can_resume,
    why_no_moves,
    why_no_state,
)
from midstep.session.rewind.certificate import Certificate, certify
from midstep.session.run import Run
from midstep.session.state.extra_state import ExtraState
from midstep.session.state.training_parts import TrainingParts

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
    from midstep.session.rewind.back import Rewind


def seed_all(seed: int) -> None:
    """Seed every global generator, also those of devices, from the run's seed."""
    key = stream_key(seed, "training")
    seed_global(key)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(key)


RunOpener = Callable[[Trainer], Run]
"""Opens the run of a session, once everything is checked."""


def controller_for(
    run: Run | None, controller: DebugController | None, config: SessionConfig
) -> DebugController:
    """The controller of a session: that of the given run, the given one, or a new one.

    Raises:
        ConfigError: the given run has another controller, or a resume is requested for it.
    """
    if run is None:
        return DebugController() if controller is None else controller
    if controller is not None and controller is not run.controller:
        raise ConfigError(
            "the session was given a run and another controller; leave the controller out"
        )
    if config.resume != "never":
        raise ConfigError(
            f"resume={config.resume!r} looks for save_dir/run_name, but the session was given an "
            "open run; leave out either resume or run"
        )
    return run.controller


def open_run(config: SessionConfig, trainer: Trainer, controller: DebugController) -> Run:
    """The run of a session: a new directory, or the next attempt in an existing one."""
    return Run(
        name=config.run_name or config.project or "session",
        save_dir=config.save_dir,
        run_name=config.run_name,
        config={
            **config.describe(),
            **trainer.parts.describe(),
            "optimizer": type(trainer.parts.optimizer).__name__,
        },
        seed=config.seed,
        controller=controller,
        model=trainer.parts.model,
        data_fingerprint=trainer.state.fingerprints.get("dataset"),
        existing="refuse" if config.resume == "never" else "continue",
        console=config.console,
        evidence=config.evidence,
    )


log = logging.getLogger("midstep.session")
Hook = TypeVar("Hook", bound=Callable[..., Any])


class Session:
    """Trains a model with midstep's own loop, bit for bit as a plain loop would.

    The run directory is opened by the first use of `fit`, a command or `run`. `close`, or the end
    of the `with` block, releases it.

    Args:
        model: the model to train.
        optimizer: an optimizer of torch, except LBFGS.
        loss_fn: takes the model's output and the target; not needed with your own step.
        train_loader: a `DataLoader`; patched in place until the session is closed.
        val_loader: for the validation after epochs.
        test_loader: for `test_now`, and for the end with `do_test_after`.
        scheduler: stepped per epoch, or as `scheduler_interval` says; ReduceLROnPlateau gets the
            validation loss.
        scaler: a gradient scaler; with fp16 one is made if left out.
        model_factory: makes another model of the same kind, for commands that work on a copy.
        controller: your own, for breakpoints set before the first step.
        config: see `SessionConfig`.
        extra_state: further objects that belong to the training, by name, such as an average of
            the weights: anything with `state_dict` and `load_state_dict`, arrays and tensors, or
            two functions `(get, set)`. Every snapshot has them.
        run: a run that you opened, to train in it. Its controller is used. The session neither
            records its end nor closes it. Or a function that opens a run for the session's
            controller, called with the trainer once all checks have passed; its end is recorded.
        view: how samples are shown: `midstep.view(…)`, a tokenizer, or a function from token ids
            to text. Without it, it is guessed from the batch.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> data = torch.utils.data.TensorDataset(torch.ones(8, 2), torch.ones(8, 1))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=4)
    >>> config = SessionConfig(save_dir=tempfile.mkdtemp())
    >>> with Session(model, optimizer, torch.nn.MSELoss(), loader, config=config) as session:
    ...     session.fit(epochs=3)
    ...     session.trainer.step
    6
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Callable[..., Any] | None,
        train_loader: Any,
        val_loader: Any = None,
        test_loader: Any = None,
        scheduler: Any = None,
        scaler: Any = None,
        model_factory: Callable[[], nn.Module] | None = None,
        controller: DebugController | None = None,
        config: SessionConfig | None = None,
        extra_state: Mapping[str, Any] | None = None,
        run: Run | RunOpener | None = None,
        view: Any = None,
    ) -> None:
        self.config = config if config is not None else SessionConfig()
        self._given_run = run if isinstance(run, Run) else None
        shown = checked_view(view)
        self.controller = controller_for(self._given_run, controller, self.config)
        if shown is not None:
            self.controller.captures.view = shown
        self._open_run: RunOpener = (
            partial(open_run, self.config, controller=self.controller)
            if run is None or isinstance(run, Run)
            else run
        )
        self.model_factory = model_factory
        self.embedding: Callable[..., Any] | None = None
        """The function that `@session.embedding_hook` decorates."""
        self.trainer = Trainer(
            TrainingParts(
                model=model,
                optimizers=[optimizer],
                loss_fn=loss_fn,
                train_loader=train_loader,
                val_loader=val_loader,
                test_loader=test_loader,
                scheduler=scheduler,
                scaler=scaler,
                extra_state=ExtraState(extra_state),
            ),
            self.config,
            report=self._report_inexact,
        )
        self.on_boundary: list[Callable[[], object]] = []
        """Called by the training thread at each boundary, before commands run."""
        self._on_step: list[Callable[[StepRecord], object]] = []
        self._on_epoch: list[EpochHook] = []
        self._inexact: list[str] = []
        self.test_means: Mapping[str, float] | None = None
        """Means of the last pass over the test loader."""
        self._run: Run | None = None
        self._engine: TrainingEngine | None = None
        self._thread: int | None = None
        self._undo = ExitStack()

    # -- decorators -------------------------------------------------------------------------------

    def training_step(self, step: Hook) -> Hook:
        """Use `step(model, batch)` for the loss: a tensor, or a mapping with `loss` and scalars."""
        self.trainer.parts.training_step = step
        return step

    def validation_step(self, step: Hook) -> Hook:
        """Use `step(model, batch)` in validation and test instead of the training step."""
        self.trainer.parts.validation_step = step
        return step

    def embedding_hook(self, hook: Hook) -> Hook:
        """Use `hook(model, batch)` to compute embeddings of samples."""
        self.embedding = hook
        return hook

    def after_step(self, hook: Hook) -> Hook:
        """Call `hook(model)` after each step that changed the weights, as a part of the training.

        It is called for repeated steps too, so what it changes belongs into `extra_state`.
        """
        self.trainer.parts.after_step.append(hook)
        return hook

    def after_epoch(self, hook: Hook) -> Hook:
        """Call `hook(model)` after each epoch and its validation, as a part of the training.

        It is called for repeated epochs too, so what it changes belongs into the model's buffers
        or into `extra_state`.
        """
        self.trainer.parts.after_epoch.append(hook)
        return hook

    def on_step(self, hook: Hook) -> Hook:
        """Call `hook(record)` with a `StepRecord` after each optimizer step."""
        self._on_step.append(hook)
        return hook

    def on_epoch(self, hook: Hook) -> Hook:
        """Call `hook(record)` with an `EpochRecord` after each epoch and its validation.

        A mapping that it returns is added to the record of the epoch in the facts.
        """
        self._on_epoch.append(hook)
        return hook

    def show(self, *hooks: Any) -> None:
        """Show what these hooks (`midstep.hooks`) measure inside the model to viewers."""
        self.run.show(*hooks)

    # -- opening and closing ----------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The run: directory, facts, lease. Opened when first read."""
        return self.engine.run

    @property
    def checkpoint_writer(self) -> CheckpointWriter:
        """Writes the checkpoints."""
        return self.engine.writer

    @property
    def rewind(self) -> Rewind:
        """Holds the snapshots that the session can go back to."""
        return self.engine.rewind

    @property
    def dir(self) -> Path:
        """The run directory."""
        return self.run.dir

    @property
    def engine(self) -> TrainingEngine:
        """Checkpoints, going back and timelines of the open session."""
        if self._engine is None:
            try:
                with ExitStack() as undo:
                    self._engine = self._open(undo)
                    self._undo = undo.pop_all()
            except BaseException:
                # Also for Ctrl-C: a half-open session must not look open.
                self._run = self._engine = None
                raise
        return self._engine

    def _open(self, undo: ExitStack) -> TrainingEngine:
        """Resume or begin. All checks come before the run directory is touched."""
        trainer, state = self.trainer, self.trainer.state
        check_can_resume(self.config.resume, trainer.parts.model)
        # Before the trainer patches the loader, whose dataset is then a wrapper.
        state.fingerprints = training_fingerprints(trainer.parts, self.config)
        meeting = RankMeeting.open()
        resume_point = find_resume_point(self.config, state.fingerprints, meeting=meeting)
        trainer.look_for_state()
        undo.enter_context(trainer)  # patches the loader
        if self.config.seed is not None:
            seed_all(self.config.seed)  # also before a resume, for the state before step 0
        can_take = not state.is_lazy() and why_no_state(trainer.parts.model) is None
        first = state.take(to_host=True) if can_take else None  # for `reset_session`
        if resume_point is not None:
            restore_resume_point(state, resume_point)
            if meeting is not None:
                compare_weights(meeting, trainer.parts.model, state.step)
        run = self._run = self._given_run or self._open_run(trainer)
        if self._given_run is None:
            undo.callback(run.close)
            weakref.finalize(self, run.close)  # if the session is dropped without `close`
        engine = TrainingEngine(
            run, state, TrainerReplay(trainer), on_fault="raise", meeting=meeting
        )
        undo.callback(engine.close)
        engine.report_moved = state.order.refuse_or_report
        run.show(LayerNorms(), model=trainer.parts.model, optimizer=trainer.parts.optimizers)
        undo.callback(SessionCommands(run, trainer.parts, engine).register())
        undo.callback(AdvancingCommands(engine, trainer, first, self.test).register())
        undo.callback(register_influence(self.controller, self._influence_source()))
        engine.open(resume_point, self._inexact)
        engine.name_untracked()
        for words in engine.notices:
            print_notice(words)
        return engine

    def _influence_source(self) -> InfluenceSource:
        trainer, parts = self.trainer, self.trainer.parts
        return InfluenceSource(
            model=parts.model,
            optimizers=parts.optimizers,
            loss_fn=parts.loss_fn,
            step=lambda: parts.training_step,
            batches=lambda: trainer.batches,
            grad_clip_norm=self.config.grad_clip_norm,
        )

    def _report_inexact(self, words: str) -> None:
        log.warning("%s", words)
        self._inexact.append(words)
        if self._run is not None:
            self._run.event(Moment.INTERVENTION, who="system", kind="inexact", reason=words)

    def close(self) -> None:
        """Finish writing, restore the loader, release the run directory; closing twice is fine."""
        self._undo.close()
        self.trainer.parts.release()
        self.embedding = None
        self._on_step.clear()
        self._on_epoch.clear()
        self.on_boundary.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._run is not None and self._run.is_in_fork:
            return  # a forked child leaves the block: all of it belongs to the parent
        try:
            if self._run is not None and error is not None:
                self._run.fail(error)
        finally:
            self.close()

    # -- training ---------------------------------------------------------------------------------

    def fit(self, *, epochs: int | None = None, steps: int | None = None) -> None:
        """Train up to a total of epochs or steps, including those before a resume.

        In the main thread SIGTERM and SIGHUP stop it at the next boundary with a checkpoint, and
        end the process with exit code 0, unless you handle them yourself. If the checkpoint of a
        stop could not be written, also of one by a command or the page, the process ends with exit
        code 1 and the reason.

        Args:
            epochs: total number of epochs.
            steps: total number of optimizer steps.
        """
        if (epochs is None) == (steps is None):
            raise ConfigError("fit needs one of epochs=… and steps=…; both are totals")
        if (total := epochs if steps is None else steps) is None or total < 0:
            raise ConfigError(f"the total of fit must be at least 0, got {total}")
        engine, run = self.engine, self.run
        if run.ended:
            raise ControlError(
                f"this session is {run.status or 'closed'}; continue in a new one with "
                "resume='auto'"
            )
        self.trainer.look_for_state()  # again: a step may be given after the session was opened
        self.trainer.total_epochs, self.trainer.total_steps = epochs, steps
        loop = FitLoop(
            self.trainer,
            engine,
            on_step=self._on_step,
            on_boundary=self.on_boundary,
            on_epoch=self._on_epoch,
        )
        self._thread = threading.get_ident()
        try:
            must_exit = run_fit(
                loop, engine, on_finished=self._on_finished, ends_run=self._given_run is None
            )
        finally:
            self._thread = None
        if must_exit:
            raise SystemExit(run.exit_code)

    def _on_finished(self) -> None:
        if self.config.do_test_after:
            self.test()

    def test(self) -> dict[str, float]:
        """Compute means over the test loader and record them; the training is not affected."""
        if self.trainer.parts.test_loader is None:
            raise ConfigError("the session has no test_loader; pass one to Session")
        self.controller.status.describe(phase="in a test")
        try:
            means = self.trainer.evaluate(self.trainer.parts.test_loader)
        finally:
            self.controller.status.describe(phase=None)
        others = {name: value for name, value in means.items() if name != "loss"}
        self.run.event(
            Moment.TEST_END,
            epoch=self.trainer.epoch,
            step=self.trainer.step,
            split="test",
            test_loss=means["loss"],
            metrics=others,
        )
        self.test_means = means
        return means

    def log(self, **scalars: Any) -> None:
        """Log values of the running step, as `AttachedRun.log`; not while steps are repeated."""
        if not self.trainer.replaying:
            self.run.log(**scalars)

    # -- commands ---------------------------------------------------------------------------------

    def command(self, command: str, **payload: Any) -> Any:
        """Run a command and return its result.

        While `fit` runs, the command runs at the next boundary, in the order of the queue, and this
        waits for it; so it must not be called from inside a step. Before and after `fit` the
        command runs at once.
        """
        _ = self.engine  # opens the session if it is not open yet
        if self._thread is not None:
            if self._thread == threading.get_ident():
                raise ControlError(
                    f"{command} was called from inside a step, which would wait for itself; use "
                    "session.controller.submit and do not wait"
                )
            return self.controller.submit(Command(name=command, payload=payload)).result()
        # No loop runs, so this thread may change the training state.
        future = self.controller.boundary.run_now(Command(name=command, payload=payload))
        return future.result(timeout=0) if future.done() else None

    def back(self, n: int | None = None, *, step: int | None = None) -> dict[str, Any]:
        """Return to the state before the last `n` steps, or to `step`; the run must be paused.

        Args:
            n: how many steps; one if neither is given.
            step: go back to this number of finished steps instead.
        """
        payload = {"n": n} if step is None else {"n": n, "step": step}
        return dict(self.command("back", **payload))

    def certify(self, steps: int = 2) -> Certificate:
        """Make `steps` steps twice from here, compare every bit, and return to this state.

        While `fit` runs, the run must be paused, and the call must come from another thread. One
        rank of a process group is refused.
        """
        _ = self.engine  # opens the session if it is not open yet
        if (reason := why_no_moves()) is not None:
            raise ControlError(reason)
        if self._thread is None:
            return certify(self.trainer, steps)
        return Certificate.from_description(self.command("determinism_health", steps=steps)["data"])
