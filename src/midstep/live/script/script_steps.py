"""`ScriptSteps`: turns what a script does with torch into steps of a run.

A step is closed when the next one begins, not in the optimizer's hook: by then the script has run
its scheduler and its logging. The next step begins with a batch of a DataLoader, a forward pass
with gradients, a backward pass, or another step of the same optimizer.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import StopTraining
from midstep.core.fault_guard import FaultGuard
from midstep.core.media.media_value import scalars_of
from midstep.live.loop.other_optimizers import has_closure
from midstep.live.script.patches.logged_scalars import scalars_in
from midstep.live.script.pending_gradients import LossesSinceStep, loss_value
from midstep.live.script.script_modules import parameters_of
from midstep.live.script.script_names import ScriptNames, named_values
from midstep.live.script.script_run import ScriptRun
from midstep.live.script.step_window import StepWindow
from midstep.session.hooks.forward_hooks import ForwardHooks
from midstep.session.ranks import RankGroup
from midstep.session.step_report import fold_names

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from midstep.live.script.watched_script import WatchedScript

log = logging.getLogger("midstep.live")
EVALUATION = "without gradients"
"""The phase of passes without gradients between two steps: an evaluation, or samples."""
EVALUATION_S = 1.0
"""Shorter ones, such as an agent that acts, are not shown as a phase."""
OWN_NAMES = frozenset({"loss", "lr", "grad_norm"})
"""Scalars of ours; one of the same name from a tracker is shown with the tracker's name."""


def is_capturing() -> bool:
    """Whether a CUDA graph is captured: reading a tensor would break it."""
    return torch.cuda._initialized and bool(torch.cuda.is_current_stream_capturing())


class ScriptSteps:
    """Steps of a script, from the calls of the patches. Runs on the thread that trains.

    Args:
        watched: the script, its command and its settings.
    """

    def __init__(self, watched: WatchedScript) -> None:
        self._watched = watched
        self._guard = FaultGuard("watching the script", log, on_fault=lambda _error: self._leave())
        self._hooks = ForwardHooks(self._model_called)
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._met: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # those that made a step
        self._thread: int | None = None
        self._made_in = threading.get_ident()  # the thread that made the first optimizer
        self._next = LossesSinceStep()
        self._window = StepWindow()
        self._clock: int | None = None  # the optimizer whose step ends a step of the run
        self._batches_given = [0, 0]  # by loaders, in the step before and in this one
        self._in_backward = False
        self._in_step: Optimizer | None = None
        self._had_loss = False  # whether the step in progress was preceded by a backward pass
        self._evaluated_since: float | None = None  # when passes without gradients began
        self._evaluation: dict[str, Any] | None = None  # what is described after this phase
        self.run: ScriptRun | None = None
        """The run; None before the first step."""
        self.optimizer_steps = 0
        """Steps that any optimizer began."""
        self.is_opening = self.is_off = False

    def _is_watching(self) -> bool:
        """Whether to do anything now: not in other threads, nor while a CUDA graph is captured."""
        if self.is_off or self._in_backward:
            return False
        if self._thread is not None and threading.get_ident() != self._thread:
            return False
        return not is_capturing()

    def _leave(self) -> None:
        """Watch nothing more, after an error of ours or on another rank."""
        self.is_off = True
        self._hooks.close()
        self._watched.leave()

    # -- optimizers -------------------------------------------------------------------------------

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """The script made an optimizer: the modules that it trains are watched from here."""
        if self._is_watching():
            self._guard.run(self._watch_modules, optimizer)

    def _watch_modules(self, optimizer: Optimizer) -> None:
        self._optimizers.add(optimizer)
        if not self._watched.compiles_functions:
            names = ScriptNames(sys._getframe())
            for module in names.roots(parameters_of([optimizer])).values():
                self._hooks.watch(module)

    def before_step(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Any) -> None:
        """An optimizer begins a step, with these arguments."""
        if not self._is_watching() or self._in_step not in (None, optimizer):
            return
        self.optimizer_steps += 1
        self._end_evaluation()
        if self.run is None:
            self._guard.run(self._open, optimizer)
            if self.run is None or self.is_off:
                return
            self._continue_or_stop(self.run.enter())
        elif optimizer not in self._met or id(optimizer) not in self.run.names:
            # On the gradients of the step before it, as after `first.step(); second.step()`.
            is_same_step = not self._next.losses and not has_closure(args, kwargs)
            self._meet(optimizer, self.run, is_same_step=is_same_step)
        elif id(optimizer) in self._window.stepped:
            # Nothing else told that a step has ended: from now on the optimizer that was last does.
            # Not if one that helps the main one repeats, as an actor that steps twice for a critic.
            if self.run.is_main(optimizer):
                self._clock = self._window.stepped[-1]
            self._end_step()
        else:
            self._begin_next(by_batch=False)
        self._guard.run(self._prepare_step, optimizer, has_closure(args, kwargs))

    def _open(self, optimizer: Optimizer) -> None:
        group = RankGroup.find()
        if group is not None and group.rank != 0:
            self._leave()
            return
        self._thread = threading.get_ident()
        names = ScriptNames(sys._getframe())
        self._met.add(optimizer)
        self._optimizers.add(optimizer)
        self.is_opening = True
        run = ScriptRun(self._watched, self._in_training)
        try:
            settings, loader = self._watched.settings, names.loader(self._next.batch_order)
            variables = named_values(sys._getframe(), only_script=True)
            settings.add_variables([(each.name, each.value) for each in variables])
            is_open = run.open(
                optimizer, list(self._optimizers), names, settings.values, group, loader
            )
        finally:
            self.is_opening = False
        if is_open:
            self.run = run
            self._watch_again(run)
        else:
            self._leave()

    def _watch_again(self, run: ScriptRun) -> None:
        """Watch the modules that the run has found, which may have been wrapped meanwhile."""
        for module in () if self._watched.compiles_functions else run.roots.values():
            self._hooks.forget(module)
            self._hooks.watch(module)

    def _meet(self, optimizer: Optimizer, run: ScriptRun, *, is_same_step: bool) -> None:
        """Another optimizer makes its first step: it joins the training, or begins the next one."""
        names = self._guard.run(ScriptNames, sys._getframe())
        if names is None:
            return
        # Trainings may also take turns: then one that made steps before comes back.
        begins_training = optimizer not in self._met and not run.is_main_held(names)
        if self._window.stepped and (begins_training or (self._is_complete() and not is_same_step)):
            self._end_step()
        elif self._clock is not None and is_same_step:
            self._clock = id(optimizer)
        self._guard.run(self._join, optimizer, run, names, begins_training)

    def _join(
        self, optimizer: Optimizer, run: ScriptRun, names: ScriptNames, begins_training: bool
    ) -> None:
        self._met.add(optimizer)
        if begins_training:
            held = [each for each in self._optimizers if names.optimizer_name(each) is not None]
            self._optimizers, self._clock = weakref.WeakSet([optimizer, *held]), None
            run.begin_training(optimizer, list(self._optimizers), names)
        else:
            run.join(optimizer, names)
        self._watch_again(run)

    def _prepare_step(self, optimizer: Optimizer, takes_closure: bool) -> None:
        run = self.run
        if run is None:
            return
        self._in_step, self._had_loss = optimizer, bool(self._next.losses)
        run.before_step(optimizer, self._window, has_closure=takes_closure)

    def after_step(self, optimizer: Optimizer) -> None:
        """An optimizer has made its step."""
        if self._in_step is optimizer and self.run is not None:
            self._in_step = None
            self._guard.run(self._note_step, optimizer, self.run)

    def _note_step(self, optimizer: Optimizer, run: ScriptRun) -> None:
        run.after_step(optimizer)
        self._window.add_step(id(optimizer), self._next, self._next.batches_of(optimizer))
        self._next.clear()

    def step_skipped(self) -> None:
        """A GradScaler left a step out, so what was backpropagated belongs to none."""
        if self._is_watching():
            self._next.clear()

    def gradients_dropped(self, parameters: Iterator[Any]) -> None:
        """`zero_grad` before a step: the backward passes so far have no effect.

        Args:
            parameters: whose gradients were dropped.
        """
        if self._is_watching() and self._in_step is None and self._next.has_gradients:
            self._guard.run(self._drop_losses, parameters)

    def _drop_losses(self, parameters: Iterator[Any]) -> None:
        # Optimizers that wrap another one train the same parameters.
        firsts = {id(next(iter(parameters_of([each])), None)) for each in self._optimizers}
        if len(firsts) == 1 and any(id(each) in firsts for each in parameters):
            self._next.drop()

    # -- losses -----------------------------------------------------------------------------------

    def loss_scaled(self, scaled: Any, loss: Any) -> None:
        """A GradScaler has multiplied a loss."""
        if self._is_watching():
            self._guard.run(self._next.scaled.note, scaled, loss)

    def backward_begins(self, tensors: Any, gradients: Any) -> bool:
        """A backward pass begins. Whether it is watched: then `backward_ended` follows."""
        if not self._is_watching():
            return False
        if self._in_step is None:
            self._begin_next(by_batch=False)
        self._guard.run(self._add_loss, tensors, gradients)
        self._in_backward = True
        return True

    def _add_loss(self, tensors: Any, gradients: Any) -> None:
        if self._in_step is not None and (self._had_loss or self._next.losses):
            self._next.drop_calls()  # a closure that is called again: the first loss is the step's
            return
        value = loss_value(tensors, gradients, self._next.scaled)
        self._next.add(value, is_loader_used=self._window.has_loader_batch)

    def backward_ended(self) -> None:
        """The backward pass that began last is over."""
        self._in_backward = False

    # -- batches ----------------------------------------------------------------------------------

    def before_batch(self) -> None:
        """A DataLoader is requested for a batch: the boundary, if a step was made."""
        if self._is_watching() and self._in_step is None and torch.is_grad_enabled():
            self._begin_next(by_batch=True)

    def after_batch(self, iterator: Any, batch: Any) -> None:
        """A DataLoader gave a batch; one that was requested without gradients is not trained on."""
        if not self._is_watching() or self._is_fetched_ahead():
            return
        if not torch.is_grad_enabled():
            self._guard.run(self._evaluating)
        else:
            self._batches_given[1] += 1
            self._guard.run(self._next.batch_fetched, iterator, batch)
            if self.run is not None:
                self._guard.run(self.run.epochs.batch_given, iterator)

    def _is_fetched_ahead(self) -> bool:
        """Whether this is a thread that fetches batches for the one that trains."""
        return self._thread is None and threading.get_ident() != self._made_in

    def pass_ended(self, iterator: Any) -> None:
        """A pass over a DataLoader is over."""
        if self._is_watching() and torch.is_grad_enabled():
            self._guard.run(self._next.pass_ended, iterator)
            if self.run is not None:
                self._guard.run(self.run.epochs.pass_ended, iterator)

    # -- modules ----------------------------------------------------------------------------------

    def _model_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if torch.compiler.is_compiling() or not self._is_watching():
            return
        if not torch.is_grad_enabled():
            self._guard.run(self._evaluating)
            return
        if self._in_step is None:
            self._begin_next(by_batch=False)
        self._guard.run(self._next.forward_called, module, args, kwargs)

    def before_compilation(self, model: nn.Module | None) -> None:
        """A model, or a function that may call any model, is about to be compiled."""
        if self.run is not None:
            self.run.results.close()  # a hook inside of a compiled model would be compiled too
        if model is not None:
            self._guard.run(self._hooks.forget, model)
        else:
            self._guard.run(self._hooks.close)

    def model_compiled(self, compiled: nn.Module) -> None:
        """`torch.compile` returned this in place of a model."""
        if not (self._watched.compiles_functions or self.is_off):
            self._guard.run(self._hooks.watch, compiled)

    def _in_training(self) -> LossesSinceStep | None:
        """What a forward pass belongs to that has just ended."""
        return self._next if self._is_watching() and self._in_step is None else None

    # -- scalars ----------------------------------------------------------------------------------

    def scalars_logged(self, source: str, values: Mapping[str, Any]) -> None:
        """A tracker of the script got these: of the step in progress, or of what is finished."""
        if self._is_watching() and self._in_step is None:
            self._guard.run(self._add_scalars, source, values)

    def _add_scalars(self, source: str, values: Mapping[str, Any]) -> None:
        scalars = fold_names(scalars_in(values))  # `learning_rate` is ours, too
        named = {f"{source}/{k}" if k in OWN_NAMES else k: v for k, v in scalars.items()}
        if self.run is None or self._window.stepped or self._next.has_begun:
            self._window.add_scalars(named)
        else:
            self.run.log_finished(named)
        if self.run is not None:
            self.run.epochs.add_metrics(scalars_of(named))

    # -- the boundary -----------------------------------------------------------------------------

    def _evaluating(self) -> None:
        """Show long work without gradients between two steps, which is not a sign of a hang."""
        if self.run is None or self._in_step is not None or self._evaluation is not None:
            return
        now = time.monotonic()
        if self._evaluated_since is None:
            self._evaluated_since = now
        if now - self._evaluated_since >= EVALUATION_S:
            self._evaluation = self.run.begin_phase(EVALUATION)

    def _end_evaluation(self) -> None:
        self._evaluated_since = None
        if self._evaluation is not None and self.run is not None:
            fields, self._evaluation = self._evaluation, None
            self.run.controller.status.describe(**fields)

    def _begin_next(self, *, by_batch: bool) -> None:
        """End the step before, if what happens now belongs to the next one."""
        self._end_evaluation()
        if self._window.stepped and (by_batch or self._is_complete()):
            self._end_step()

    def _is_complete(self) -> bool:
        """Whether all optimizers of a step have made theirs."""
        if self._clock is not None:
            return self._window.stepped[-1] == self._clock
        return not any(self._batches_given) and len(self._optimizers) == 1

    def _end_step(self) -> None:
        """Report the step, run commands, park if paused."""
        window, self._window = self._window, StepWindow()
        self._batches_given = [self._batches_given[1], 0]
        run = self.run
        if run is not None and not self.is_off:
            self._guard.run(run.report, window)
            self._continue_or_stop(run.pass_boundary())
            self._guard.run(run.step_begins)

    def _continue_or_stop(self, going: bool) -> None:
        if not going and self.run is not None:
            raise StopTraining(f"stopped after {self.run.step:,} steps")

    def end(self, error: BaseException | None) -> None:
        """The script is over: end the last step, then the run."""
        was_off, self.is_off = self.is_off, True
        self._hooks.close()
        run, window = self.run, self._window
        if run is None:
            return
        try:
            if not (was_off or isinstance(error, KeyboardInterrupt | StopTraining)):
                self._end_last_step(run, window)
        except KeyboardInterrupt as interrupt:
            run.end(interrupt)
            raise
        run.end(error)

    def _end_last_step(self, run: ScriptRun, window: StepWindow) -> None:
        if window.stepped:
            self._guard.run(run.report, window)
            run.pass_boundary()
