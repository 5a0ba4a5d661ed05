"""`AttachedRun`: the run of a loop that the user wrote. It forwards the names of `Run`."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining
from midstep.core.moments import Moment
from midstep.core.standard_streams import print_notice
from midstep.live.loop.declared_loss import check_declared
from midstep.live.loop.exit_handler import call_at_exit, error_of_script
from midstep.live.loop.pause_notice import announce_first_pause
from midstep.live.loop.phases import Phase
from midstep.live.loop.run_config import as_settings, header_config
from midstep.live.loop.saved_training import SavedTraining
from midstep.live.loop_port import LoopPort
from midstep.live.mirrors import check_mirrors, mirror_scalars
from midstep.live.notebook.run_display import (
    is_in_notebook,
    mime_bundle,
    open_in_browser,
    page_notice,
    relative,
)
from midstep.live.page import Page
from midstep.live.plain_loop import AttachedLoader, hook_optimizer
from midstep.live.run_socket import serve_on_socket
from midstep.session import Run
from midstep.session.signals import GracefulStop, stop_at_signals
from midstep.session.state.step_position import KeptVariables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from midstep.control.samples.view import SampleView
    from midstep.facts import FactsWriter, Lease
    from midstep.facts.index.labels import Labels
    from midstep.live.mode import Mode
    from midstep.session import OnError
    from midstep.session.config import SessionConfig
    from midstep.session.hooks import Hook
    from midstep.session.state.training_parts import TrainingParts


class AttachedRun:
    """A run of the user's own loop, made by `attach`: enter it, loop, leave it.

    `start` and `close` do the same without a block. With MIDSTEP_MODE=off there is no run: `steps`
    and `epochs` are plain ranges, `batch` hands back what it gets, and the others do nothing.

    Args:
        parts: what is trained; released when the run ends.
        config: order, checkpoints and resume.
        given_config: the user's settings, for the header.
        labels: tags and note of the run; those that it has already stay.
        view: how samples are shown; that of the controller if None.
        git_diff: whether to keep the diff of the git repository.
        total_steps: of the training, if the user knows it.
        mode: see `midstep.live.mode`.
        mirror: trackers of the script whose scalars are recorded too.
        name: of the run.
        on_error: `park` or `raise`; see `Run`.
        serve: serve the page.
        port: of the page.
        controller: the user's own; a new one if None.
        start_paused: pause before the first step.
    """

    def __init__(
        self,
        parts: TrainingParts,
        config: SessionConfig,
        *,
        given_config: Any = None,
        labels: Labels | None = None,
        view: SampleView | None = None,
        git_diff: bool = True,
        total_steps: int | None = None,
        mode: Mode,
        mirror: Sequence[str],
        name: str,
        on_error: OnError | None,
        serve: bool,
        port: int | None,
        controller: DebugController | None,
        start_paused: bool,
    ) -> None:
        check_mirrors(mirror)
        self.mode, self._mirror = mode, mirror
        self.controller = controller if controller is not None else DebugController()
        if view is not None:
            self.controller.captures.view = view
        self.url: str | None = None
        """Address of the page with its token, while it is served."""
        self._parts, self._config = parts, config
        self._name, self._on_error = name, on_error
        self._total_steps = total_steps
        # Before anything is opened, so that settings of a wrong kind are refused first.
        self._given = as_settings(given_config)
        self._header = header_config(parts, self._given)
        self._labels, self._git_diff = labels, git_diff
        self._kept = KeptVariables()
        self._serve, self._port = serve and mode == "live", port
        self._start_paused = start_paused
        self._inexact: list[str] = []
        self._run: Run | None = None
        self._loop: LoopPort | None = None
        self._is_closed = False
        self._signals: GracefulStop | None = None
        self._undo = ExitStack()

    def opened_run(self) -> Run:
        """The `Run` with its directory, facts and lease.

        Raises:
            ConfigError: the block was not entered, or MIDSTEP_MODE is off.
        """
        if self._run is None:
            raise ConfigError(
                "there is no run: enter the `with` block first, and do not set MIDSTEP_MODE=off"
            )
        return self._run

    @property
    def step(self) -> int:
        """How many steps are finished; 0 when switched off."""
        return 0 if self._run is None else self._run.step

    @property
    def dir(self) -> Path | None:
        """The run directory; None when switched off."""
        return None if self._run is None else self._run.dir

    @property
    def run_id(self) -> str | None:
        """The id of the run; None when switched off."""
        return None if self._run is None else self._run.run_id

    @property
    def status(self) -> str | None:
        """How the run ended; None while it is open."""
        return None if self._run is None else self._run.status

    @property
    def facts(self) -> FactsWriter:
        """The writer of the run's facts."""
        return self.opened_run().facts

    @property
    def lease(self) -> Lease:
        """The lease: shows that the run is alive, and where it can be reached."""
        return self.opened_run().lease

    def open_page(self) -> None:
        """Open the page in the browser of this machine; for a notebook, which stores every link."""
        open_in_browser(self.url)

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, str]:
        """How a notebook displays the run."""
        state = {**self.controller.get_state(), **({"state": self.status} if self.status else {})}
        url = None if self._is_closed else self.url
        return mime_bundle(state, name=self._name, directory=self.dir, url=url)

    def start(self) -> AttachedRun:
        """Begin without a `with` block, and return itself. End it with `close`, or with the script.

        In a notebook an error leaves the run open, so that a cell can be fixed and run again. In a
        script the run ends as it would in a block: a stop or SIGTERM ends the script without an
        error, and an error of the script is recorded.
        """
        self._begin()
        if self.mode != "off":
            call_at_exit(self._end_at_exit)
        return self

    def _begin(self) -> None:
        if self.mode == "off":
            return
        if self._loop is not None:
            raise ConfigError("this run has begun before; call midstep.attach again for another")
        with ExitStack() as undo:
            self._open(undo)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """End what `start` began: finished, or stopped if it was. Closing twice is fine."""
        self._end(None)

    def _end_at_exit(self) -> None:
        """The interpreter exits: end what was not closed. Nothing can be raised from here."""
        if self._loop is None or self._is_closed or self._run is None:
            return
        self._run.on_error = "raise"  # nobody could release it any more
        error = self._loop.stop_error or error_of_script()
        if error is None and is_in_notebook():
            self._note_stop("the kernel ended")
            error = StopTraining("the kernel ended")
        with suppress(SystemExit):
            self._end(error)

    def __enter__(self) -> AttachedRun:
        self._begin()
        return self

    def _open(self, undo: ExitStack) -> None:
        """Open signals, run, hooks and page; undone in reverse order, also if a later one fails."""
        from midstep.session.hooks import LayerNorms
        from midstep.session.influence_command import InfluenceSource, register_influence

        parts = self._parts
        self._signals = undo.enter_context(
            stop_at_signals(self.controller, self._note_stop, loaders=[parts.train_loader])
        )
        page = self._reserve_page(undo)
        loader = AttachedLoader(parts.train_loader, self._config.order, self._report_inexact)
        saved = SavedTraining(parts, loader, self._config, self._report_inexact)
        run = self._run = undo.enter_context(self._open_run(parts))
        self._record_environment(run)
        loop = self._loop = LoopPort(run, parts, loader.order, self._total_steps)
        undo.callback(loop.detach)
        run.show(LayerNorms(), model=parts.model, optimizer=parts.optimizers)
        undo.enter_context(loader.patch)
        loader.listen(loop)
        notices = saved.open_engine(undo, run, loop, self._inexact, self._given)
        loop.refusals.report = self._report_inexact
        if parts.loss_fn is not None:
            source = InfluenceSource(
                model=parts.model,
                optimizers=parts.optimizers,
                loss_fn=parts.loss_fn,
                sizes=lambda: loop.results.sizes,
            )
            undo.callback(register_influence(self.controller, source))
        undo.enter_context(hook_optimizer(parts.optimizer, loop))
        undo.enter_context(loop.others.hooked())
        undo.callback(loop.declared.hook())
        undo.enter_context(mirror_scalars(self._mirror, loop.log))
        if self._start_paused:
            self.controller.pause()
        if page is None:
            server = undo.enter_context(serve_on_socket(run))
            undo.callback(announce_first_pause(run, server))
        else:
            undo.callback(page.close)  # a second time: it must close before the run does
            page.show(run)
            self.url = page.url
            print_notice(page_notice(page.url or ""))
        print_notice(f"run {relative(run.dir)}")
        if saved.resume_point is not None:
            snapshot = saved.resume_point.snapshot
            print_notice(f"continues at step {snapshot.step:,}, in epoch {snapshot.epoch + 1}")
        for words in notices:
            print_notice(words)

    def _report_inexact(self, words: str) -> None:
        """Report once what a resume or a step back cannot repeat exactly, also as a fact."""
        print_notice(words)
        if self._run is None:
            self._inexact.append(words)
        else:
            self._run.event(Moment.INTERVENTION, who="system", kind="inexact", reason=words)

    def _note_stop(self, cause: str) -> None:
        if self._run is not None:
            self._run.note_stop(cause)

    def _open_run(self, parts: TrainingParts) -> Run:
        return Run(
            controller=self.controller,
            model=parts.model,
            config=self._header,
            seed=_torch_seed(),
            data_fingerprint=parts.describe_dataset(),
            name=self._name,
            save_dir=self._config.save_dir,
            run_name=self._config.run_name,
            on_error=self._on_error,
            existing="refuse" if self._config.resume == "never" else "continue",
            console=self._config.console,
            evidence=self._config.evidence,
        )

    def _record_environment(self, run: Run) -> None:
        """Write tags, note, packages and git diff into the run directory."""
        from midstep.facts.index.labels import Labels, read_labels, write_labels
        from midstep.session.environment_files import write_environment

        write_environment(run.dir, run.attempt, Path.cwd(), git_diff=self._git_diff)
        # What was put on the run later, on the page or in the terminal, is not replaced.
        if (
            self._labels is not None
            and self._labels != Labels()
            and read_labels(run.dir) == Labels()
        ):
            write_labels(run.dir, tags=self._labels.tags, note=self._labels.note)

    def _reserve_page(self, undo: ExitStack) -> Page | None:
        """Open the page before a run directory is made, so that a refusal leaves no directory."""
        if not self._serve:
            return None
        page = Page(self._config.save_dir, self._port)
        undo.callback(page.close)
        return page

    def epochs(self, n: int) -> Iterator[int]:
        """Epochs from 0 to `n - 1`, or from the resumed one. A value logged between two epochs
        belongs to the first of them.
        """
        loop = self._begun()
        return iter(range(n)) if loop is None else loop.epochs(n)

    def steps(self, n: int | None) -> Iterator[int]:
        """Indices from 0 to `n - 1`, or from the resumed one; without end if `n` is None.

        Every index is a boundary and part of the state. An iteration with an optimizer step, or
        with several, counts as one step; one without moves only the index.
        """
        loop = self._begun()
        if loop is None:
            return itertools.count() if n is None else iter(range(n))
        return loop.steps(n)

    def batch(self, *batch: Any) -> Any:
        """Say what the running step trains on, and get it back unchanged.

        `x, y = run.batch(*get_batch())` shows and counts it, as with a loader.
        """
        handed = batch[0] if len(batch) == 1 else batch
        loop = self._begun()
        if loop is not None:
            loop.batch(handed)
        return handed

    def loss(self, *inputs: Any, **named: Any) -> Any:
        """Compute the declared loss of the running batch, and show the loss of each sample.

        `loss = run.loss(model(x), y)` calls the `loss_fn` of `attach` with these arguments. For a
        module that is called once per batch the run sees it without this.
        """
        loop, loss_fn = self._begun(), check_declared(self._parts.loss_fn)
        return loss_fn(*inputs, **named) if loop is None else loop.declared.call(inputs, named)

    def keep(self, **variables: Any) -> SimpleNamespace:
        """A namespace for the loop's own variables that move with the state.

        `k = run.keep(best=float("inf"))`, then `k.best = …` in the loop: a resume and going back
        restore it. Numbers, text, arrays, tensors, and containers of these.
        """
        loop = self._begun()
        kept = self._kept if loop is None else loop.kept
        return kept.add(variables)

    def step_end(self) -> None:
        """A boundary where the loop cannot be a `for` over `run.steps`: call it after each step.

        Inside an iteration of `run.steps` the run can pause there and be looked at, but no step
        ends and no snapshot is taken.
        """
        loop = self._begun()
        if loop is not None:
            loop.step_end()

    def phase(self, name: str, *, expect_s: float | None = None) -> Phase:
        """Long work between two steps: `with run.phase("eval"):`. The state shows it.

        Args:
            name: of the work.
            expect_s: after so many seconds the run counts as not responding; 10 minutes if None.
        """
        return Phase(None if self._begun() is None else self.controller, name, expect_s)

    def log(self, **values: Any) -> None:
        """Log values of the running step, or, between epochs, of the finished one.

        Numbers, or tensors of one element: for charts, breakpoints and the facts. Pictures, texts,
        lists of numbers and tables: for the Media tab, see `docs/how-to/log-media.md`. Anything
        else is not recorded, and a line in the terminal says so once for each name.
        """
        loop = self._begun()
        if loop is not None:
            loop.log(values)

    def show(self, *hooks: Hook) -> None:
        """Show what these hooks (`midstep.hooks`) measure inside the model to viewers."""
        if self._begun() is not None:
            self.opened_run().show(*hooks)

    def hide(self, key: str) -> None:
        """Stop showing the hook of that key; the model is left as it was."""
        if self._begun() is not None:
            self.opened_run().hide(key)

    def _begun(self) -> LoopPort | None:
        """The loop; None when switched off."""
        if self._loop is None and self.mode != "off":
            raise ConfigError(
                "the run has not begun: use `with midstep.attach(…) as run:`, or call run.start() "
                "in a notebook"
            )
        if self._is_closed:
            raise ConfigError("this run has ended; call midstep.attach again for another")
        return self._loop

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._end(error)
        return self._loop is not None and isinstance(error, StopTraining)

    def _end(self, error: BaseException | None) -> None:
        if self._loop is None or self._is_closed or self.opened_run().is_in_fork:
            return  # in a forked child, run and page belong to the parent
        self._is_closed = True
        signals = self._signals
        with self._undo:
            self._loop.end(error if error is None or signals is None else signals.as_stop(error))
        # Workers of the loader end when its last reference is dropped, here or in the user's code.
        self._parts.release()
        del self._parts
        steps = self.step
        print_notice(f"{self.status} after {steps:,} step{'' if steps == 1 else 's'}")
        run = self.opened_run()
        is_stop = run.status == "stopped" and (error is None or isinstance(error, StopTraining))
        is_signal = signals is not None and signals.caused(error)
        if is_signal or (is_stop and run.unsaved is not None):
            raise SystemExit(run.exit_code)


def _torch_seed() -> int:
    """The seed of torch's default generator; reading it does not advance it."""
    import torch

    return torch.initial_seed()
