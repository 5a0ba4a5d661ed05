"""`ScriptRun`: the run of a script: its page, its facts, and what is shown of each step."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from torch import nn

from midstep.control import DebugController
from midstep.core.commands.catalog import PAUSE, RUN_UNTIL, STEP, STOP
from midstep.core.errors import MidstepError, StopTraining
from midstep.core.moments import Moment
from midstep.core.standard_streams import print_notice
from midstep.live.attached_run import _torch_seed
from midstep.live.loop.pause_notice import announce_first_pause
from midstep.live.mode import current_mode
from midstep.live.notebook.run_display import relative
from midstep.live.page import Page
from midstep.live.run_socket import serve_on_socket
from midstep.live.script.attach_hint import LOCALS, attach_hint
from midstep.live.script.patches.script_settings import plain_settings
from midstep.live.script.script_epochs import ScriptEpochs
from midstep.live.script.script_modules import as_one_module, not_owned, parameters_of
from midstep.session import Run
from midstep.session.engine.session_commands import SessionCommands
from midstep.session.hooks import LayerNorms
from midstep.session.metrics.runtime_metrics import RuntimeMetrics, used_rate
from midstep.session.state.training_parts import TrainingParts
from midstep.session.state.training_state import StepMark
from midstep.session.step_report import StepReporter
from midstep.session.step_results import StepResults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.optim import Optimizer

    from midstep.control.capture.sample_results import Results
    from midstep.live.script.script_names import ScriptNames
    from midstep.live.script.step_window import StepWindow
    from midstep.live.script.watched_script import WatchedScript
    from midstep.session.ranks import RankGroup
    from midstep.session.step_results import Position

HOW_TO = (
    "To see the loss of each sample of this script, use midstep.attach with its loss as loss_fn."
)


class ScriptRun:
    """The run of a script.

    The first optimizer that steps is the main one: its learning rate and loss are `lr` and `loss`.
    With several optimizers, each has its own under its name in the script: `lr.NAME`, `loss.NAME`.

    Args:
        watched: the script: its command, and what captures what it prints.
        step: returns what was backpropagated since the last optimizer step; None if nothing of the
            script is to be noted now.
    """

    def __init__(self, watched: WatchedScript, step: Callable[[], Position | None]) -> None:
        self._watched, self._command, self._step = watched, watched.command, step
        self.controller = DebugController()
        self.roots: dict[str, nn.Module] = {}
        """The modules that are trained, by their names in the script."""
        self.names: dict[int, str] = {}
        """Names of the optimizers that have stepped."""
        self._opened: Run | None = None
        self._undo = ExitStack()
        self._trainings = 1

    @property
    def _run(self) -> Run:
        assert self._opened is not None  # noqa: S101 - `open` comes first
        return self._opened

    @property
    def step(self) -> int:
        """How many steps are finished."""
        return self._run.step

    # -- begin ------------------------------------------------------------------------------------

    def open(
        self,
        optimizer: Optimizer,
        optimizers: Sequence[Optimizer],
        names: ScriptNames,
        settings: Mapping[str, Any],
        group: RankGroup | None,
        loader: Any,
    ) -> bool:
        """Open page and run; False, with a line on standard error, if that is not possible.

        Args:
            optimizer: makes the first step.
            optimizers: all that the script has made.
            names: those of the script's variables.
            settings: for the header record.
            group: the process group of which this is the first rank.
            loader: gave the first batch; None if no variable holds one that did.
        """
        self._loader = loader
        try:
            with ExitStack() as undo:
                self._open(undo, optimizer, optimizers, names, settings)
                self._undo = undo.pop_all()
        except MidstepError as error:
            if self._command.answer_to is not None:  # it was launched for this run alone
                self._command.answer(refused=str(error))
                raise SystemExit(2) from error
            print_notice(f"the script runs without midstep: {error}")
            return False
        self._command.answer(started=True)
        if group is not None:
            self._only_look(group)
        elif self._command.starts_paused:
            self.controller.pause()
        others = [each for each in optimizers if each is not optimizer]
        given = names, self.roots, self._tensors, [optimizer, *others], self._loader
        for words in attach_hint(self._command, *given):
            print_notice(words)
        self._loader = None
        return True

    def _open(
        self,
        undo: ExitStack,
        optimizer: Optimizer,
        optimizers: Sequence[Optimizer],
        names: ScriptNames,
        settings: Mapping[str, Any],
    ) -> None:
        command = self._command
        for expression in command.breakpoints:
            self.controller.add_breakpoint("expression", expression=expression)
        page = None
        if command.has_page and current_mode() == "live":
            page = Page(command.save_dir, command.port)  # first: a refusal leaves no directory
            undo.callback(page.close)
        self._find(optimizer, optimizers, names)
        parts = TrainingParts(model=self._model, optimizers=[optimizer], train_loader=self._loader)
        run = self._opened = undo.enter_context(self._open_run(parts, settings))
        parts.release()
        reporter = self._measure(optimizer)
        undo.callback(lambda: self._reporter.close())  # noqa: PLW0108 - each training has its own
        undo.callback(lambda: self.results.close())  # noqa: PLW0108 - as above
        self.epochs = ScriptEpochs(run, reporter)
        commands = SessionCommands(run, parts, None, why_not=LOCALS)
        self._parts = parts
        undo.callback(commands.register())
        run.controller.status.offer_rewind(lambda: {"available": False, "reason": LOCALS})
        if page is None:
            server = undo.enter_context(serve_on_socket(run))
            if command.answer_to is None:  # else `midstep serve` shows the pause
                undo.callback(announce_first_pause(run, server))
        else:
            undo.callback(page.close)  # a second time: it must close before the run does
            page.show(run)
            print_notice(f"page {page.url}")
        print_notice(f"run {relative(run.dir)}")

    def _open_run(self, parts: TrainingParts, settings: Mapping[str, Any]) -> Run:
        command = self._command
        trained = {
            "optimizers": [type(each).__name__ for each in self._measured],
            "modules": {name: type(module).__name__ for name, module in self.roots.items()},
        }
        defaults = plain_settings(parts.optimizer.defaults) or {}
        return Run(
            controller=self.controller,
            model=parts.model,
            config={**defaults, **parts.describe(), **trained, **settings},
            seed=_torch_seed(),
            data_fingerprint=parts.describe_dataset(),
            name=command.name,
            save_dir=command.save_dir,
            run_id=command.run_id,
            run_dir=command.run_dir,
            command=command.for_people(),
            on_error="park" if command.parks else "raise",
            console=self._watched.console or False,
            evidence=command.keeps_evidence,
        )

    def _find(
        self, optimizer: Optimizer, optimizers: Sequence[Optimizer], names: ScriptNames
    ) -> None:
        """Find what is trained, and the name of the optimizer."""
        self._main = optimizer
        self._name(optimizer, names)
        self._measured = [optimizer, *(each for each in optimizers if each is not optimizer)]
        self.roots = {}
        self._find_modules(names)

    def _find_modules(self, names: ScriptNames) -> None:
        """Find what the optimizers train, besides the modules that are known."""
        parameters = parameters_of(self._measured)
        self.roots = names.roots(not_owned(parameters, self.roots), known=self.roots)
        self._tensors = names.tensor_names(not_owned(parameters, self.roots))
        self._model = as_one_module(self.roots, self._tensors)

    def _name(self, optimizer: Optimizer, names: ScriptNames) -> None:
        name = names.optimizer_name(optimizer) or "optimizer"
        taken = {each for key, each in self.names.items() if key != id(optimizer)}
        numbered = (f"{name}_{number}" for number in range(2, 10_000))
        self.names[id(optimizer)] = (
            name if name not in taken else next(each for each in numbered if each not in taken)
        )

    def _measure(self, optimizer: Optimizer) -> StepReporter:
        # An empty module: counting zeros puts hooks on the model, and the script may save or copy
        # it with them.
        self._metrics = RuntimeMetrics(nn.Module(), optimizer, self.controller)
        self._show_layers()
        self._reporter = StepReporter(self._run, self._metrics)
        is_hooked = len(self.roots) == 1 and not self._tensors
        model = self._model if is_hooked and not self._watched.compiles_functions else None
        self.results = StepResults(self.controller, None, HOW_TO, self._step, model)
        """Losses and predictions of samples."""
        return self._reporter

    def _show_layers(self) -> None:
        self._run.show(LayerNorms(), model=self._model, optimizer=self._measured)

    def _only_look(self, group: RankGroup) -> None:
        """Refuse what would make the other ranks wait for this one, or train without it."""
        reason = (
            f"This is {group.words} in a process group, which `midstep run` only looks at; use "
            "midstep.attach on every rank to pause it."
        )
        for definition in (PAUSE, STEP, RUN_UNTIL, STOP):
            self.controller.queue.refuse_if(definition, lambda: reason)
        self.controller.boundary.limit_park(lambda: (0.0, reason))
        print_notice(f"this is {group.words}: it can be looked at, and not be paused")

    # -- several trainings ------------------------------------------------------------------------

    def is_main(self, optimizer: Optimizer) -> bool:
        """Whether its learning rate and loss are those of the run."""
        return optimizer is self._main

    def is_main_held(self, names: ScriptNames) -> bool:
        """Whether a variable of the script holds the main optimizer: its training goes on then."""
        return names.optimizer_name(self._main) is not None

    def join(self, optimizer: Optimizer, names: ScriptNames) -> None:
        """Another optimizer of the same training makes a step.

        It may be of a training that began before the present one, and takes turns with it.
        """
        self._name(optimizer, names)
        if all(each is not optimizer for each in self._measured):
            self._measured.append(optimizer)
            self._run.event(  # the header cannot name it: the script made it after the first step
                Moment.INTERVENTION,
                who="system",
                kind="optimizer",
                name=self.names[id(optimizer)],
                optimizer=type(optimizer).__name__,
                step=self.step,
            )
            self._find_modules(names)
            self._parts.model = self._model
            self._run.offer_tensors(self._model)
            self._show_layers()
        self._parts.optimizers = [*self._parts.optimizers, optimizer]
        self._parts.names_in_dict = [self.names[id(each)] for each in self._parts.optimizers]

    def begin_training(
        self, optimizer: Optimizer, optimizers: Sequence[Optimizer], names: ScriptNames
    ) -> None:
        """The script begins another training, as of the next fold.

        Args:
            optimizer: makes its first step.
            optimizers: all that the script still has.
            names: those of its variables.
        """
        self._trainings += 1
        self.names.clear()
        self._reporter.close()
        self.results.close()
        self._find(optimizer, optimizers, names)
        self._parts.optimizers, self._parts.names_in_dict = [optimizer], None
        self._parts.model = self._model
        self._run.offer_tensors(self._model)
        reporter = self._measure(optimizer)
        self.epochs.training_began(reporter)
        self._metrics.step_begins()
        self._run.event(
            Moment.INTERVENTION,
            who="system",
            kind="training",
            number=self._trainings,
            step=self.step,
            modules={name: type(module).__name__ for name, module in self.roots.items()},
        )

    # -- steps ------------------------------------------------------------------------------------

    def enter(self) -> bool:
        """The boundary before the first step; False if the run was stopped there."""
        self._metrics.step_begins()
        return self.controller.boundary.enter()

    def before_step(
        self, optimizer: Optimizer, window: StepWindow, *, has_closure: bool = False
    ) -> None:
        """An optimizer begins its step; with a closure its gradients come inside of it."""
        window.rates[id(optimizer)] = used_rate(optimizer)
        if optimizer is self._main and (self._metrics.measuring or self._metrics.wants_norm):
            self._metrics.before_step(has_closure=has_closure)

    def after_step(self, optimizer: Optimizer) -> None:
        """An optimizer has made its step."""
        if optimizer is self._main and (self._metrics.measuring or self._metrics.wants_norm):
            self._metrics.after_step()

    def step_begins(self) -> None:
        """The next step begins."""
        self.controller.captures.last_batch = None
        self._metrics.step_begins()

    def report(self, window: StepWindow) -> None:
        """Report a finished step, before the boundary counts it."""
        main = id(self._main)
        loss, rate = window.loss(main), window.rates.get(main)
        scalars = dict(window.scalars)
        if loss is not None:
            scalars["loss"] = loss
        if len(self.names) > 1:
            for key, name in self.names.items():
                if window.losses.get(key) is not None:
                    scalars[f"loss.{name}"] = window.losses[key]
                if window.rates.get(key) is not None:
                    scalars[f"lr.{name}"] = window.rates[key]
        if self._trainings > 1:
            scalars["training"] = self._trainings
        batches = window.batches(main)
        self.epochs.step_finished(loss, batches.count)
        self._reporter.report(
            step=self.step + 1,
            epoch=self.epochs.number,
            loss=loss,
            scalars=scalars,
            batches=batches.batches,
            sample_ids=None,
            results=self._results_of(batches.batches, loss),
            mark=StepMark(None, rate, loss),
        )

    def _results_of(self, batches: Sequence[Any], loss: Any) -> Results | str | None:
        is_observed = self.controller.captures.is_observed
        return self.results.take(batches, loss) if is_observed else None

    def begin_phase(self, name: str) -> dict[str, Any] | None:
        """Show what happens between two steps; returns the fields to describe after it.

        None while another phase is shown, such as what follows an epoch.
        """
        status = self.controller.status
        return status.begin_phase(name) if status.phase is None else None

    def pass_boundary(self) -> bool:
        """Count the step, run commands, park if paused; False if the run was stopped."""
        return self.controller.boundary.wait_if_paused()

    def log_finished(self, values: Mapping[str, Any]) -> None:
        """Scalars that the script logged between two steps."""
        self._run.log_finished(**values)

    # -- end --------------------------------------------------------------------------------------

    def end(self, error: BaseException | None) -> None:
        """Record the end of the run and close it.

        Args:
            error: what ended the script; None if it came to its end.
        """
        run = self._run
        is_exit = isinstance(error, SystemExit) and error.code in (None, 0)
        with self._undo:
            self.epochs.close()
            if error is None or is_exit:
                run.finish()
            else:
                run.fail(error)
        steps = f"{run.step:,} step{'' if run.step == 1 else 's'}"
        words = f"stopped after {steps}" if isinstance(error, StopTraining) else None
        print_notice(words or f"{run.status} after {steps}")
