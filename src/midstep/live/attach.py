"""`attach`: a loop of the user's own, made stoppable by what it already has.

The loader tells where one step ends and the next begins, the optimizer tells that a step was made.
The boundary is the loader's next batch after an optimizer step: there scheduler, `zero_grad` and
weight averages have run, which is not yet so right after `optimizer.step()`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining
from midstep.core.moments import Moment
from midstep.live.loop_port import LoopPort
from midstep.live.mode import Mode, current_mode
from midstep.live.page import Page
from midstep.live.plain_loop import AttachedLoader, hook_loss, hook_optimizer
from midstep.live.run_socket import serve_on_socket
from midstep.session import OnError, Run
from midstep.session.signals import GracefulStop, stop_at_signals
from midstep.session.state.training_parts import AttachedParts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from torch import nn
    from torch.optim import Optimizer

    from midstep.data.order.strategy import OrderPolicy
    from midstep.facts import FactsWriter, Lease
    from midstep.session.config import Resume, SessionConfig
    from midstep.session.hooks import Hook

__all__ = ["AttachedRun", "attach"]


def attach(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    loader: Iterable[Any],
    *,
    scheduler: Any = None,
    scaler: Any = None,
    loss_fn: Any = None,
    name: str | None = None,
    save_dir: str | Path = "outputs/runs",
    run_name: str | None = None,
    serve: bool = False,
    port: int | None = None,
    start_paused: bool = False,
    on_error: OnError | None = None,
    controller: DebugController | None = None,
    resume: Resume = "never",
    data_order_policy: OrderPolicy = "user",
    seed: int | None = None,
    checkpoint_every_steps: int | None = None,
    checkpoint_keep: int = 10,
    rewind_steps: int = 64,
    rewind_bytes: int | None = None,
) -> AttachedRun:
    """Make a plain loop stoppable, steppable and visible inside a `with` block.

    Where no block fits, as in a notebook: `run = attach(…).start()`, and `run.close()` at the end.

    In the main thread SIGTERM and SIGHUP stop it at the next boundary, with a complete record and
    exit code 0, unless you handle them yourself; a second one ends the process at once.

    Args:
        model: the module in training; its parameters can be watched.
        optimizer: one, or several of which the first is the clock.
        loader: what the loop iterates over. Changed in place, put back when the block ends.
        scheduler: declared, it is part of every snapshot; undeclared, it is not rewound.
        scaler: as `scheduler`.
        loss_fn: a module whose output is the loss; without it, log the loss.
        name: of the run; the script's name when left out.
        save_dir: where run directories are made.
        run_name: exactly `save_dir/run_name`; one that holds a run already is refused, unless it
            is resumed.
        serve: put it on the page, and say where on standard error.
        port: of the page; a free one when left out.
        start_paused: park before the first step.
        on_error: `park` or `raise`; see `Run`.
        controller: one of your own, for breakpoints set before the first step.
        resume: `auto` goes on from the newest checkpoint of `run_name`, in the middle of an epoch
            too, if the loop is `for epoch in run.epochs(n)`; `must` needs one.
        data_order_policy: `user` leaves the order alone, the others seed it: docs/data-order.md.
        seed: of a seeded order; nothing else is seeded here.
        checkpoint_every_steps: also after so many steps; else at pauses, epoch ends and the end.
        checkpoint_keep: how many checkpoints to keep.
        rewind_steps: how many steps back one can go, inside the epoch; 0 for none.
        rewind_bytes: host memory for that; a tenth of what is free when left out.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> loader = torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=4)
    >>> with attach(model, optimizer, loader, save_dir=tempfile.mkdtemp()) as run:
    ...     for epoch in run.epochs(2):
    ...         for x in loader:
    ...             loss = model(x).square().mean(); loss.backward()
    ...             optimizer.step(); optimizer.zero_grad(); run.log(loss=loss)
    >>> run.step
    4
    """
    from midstep.session.config import SessionConfig

    optimizers = _as_list(optimizer)
    config = SessionConfig(
        run_name=run_name,
        save_dir=save_dir,
        seed=seed,
        data_order_policy=data_order_policy,
        enforce_sampler_state=False,
        checkpoint_every_steps=checkpoint_every_steps,
        checkpoint_keep=checkpoint_keep,
        resume=resume,
        rewind_steps=rewind_steps,
        rewind_bytes=rewind_bytes,
    )
    return AttachedRun(
        mode=current_mode(),
        model=model,
        optimizers=optimizers,
        loader=loader,
        declared={"scheduler": scheduler, "scaler": scaler, "loss_fn": loss_fn},
        config=config,
        name=name or _script_name(),
        on_error=on_error,
        port=port,
        serve=serve,
        controller=controller,
        start_paused=start_paused,
    )


class AttachedRun:
    """A run of a plain loop: enter it, loop, leave it. Made by `attach`.

    `start` and `close` do the same without a block.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        loader: Iterable[Any],
        declared: dict[str, Any],
        config: SessionConfig,
        name: str,
        on_error: OnError | None,
        serve: bool,
        port: int | None,
        controller: DebugController | None,
        start_paused: bool,
    ) -> None:
        self.mode = mode
        self._parts = AttachedParts(model, list(optimizers), loader, declared)
        self.controller = controller if controller is not None else DebugController()
        self.url: str | None = None
        """Address of the page with its token, while served."""
        self._config, self._name, self._on_error = config, name, on_error
        self._serve, self._port = serve and mode == "live", port
        self._start_paused = start_paused
        self._inexact: list[str] = []
        self._run: Run | None = None
        self._loop: LoopPort | None = None
        self._closed = False
        self._signals: GracefulStop | None = None
        self._undo = ExitStack()

    def opened_run(self) -> Run:
        """The `Run` with its directory, facts and lease.

        Raises:
            ConfigError: the block was not entered, or MIDSTEP_MODE is off.
        """
        if self._run is None:
            raise ConfigError("there is no run: enter the block first, with MIDSTEP_MODE not off")
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
        """What says that the run is alive, and where it is reached."""
        return self.opened_run().lease

    def start(self) -> AttachedRun:
        """Begin without a `with` block, as in a notebook; gives itself back. End it with `close`.

        Until then an error leaves the run open, so that the cell can be mended and run again.
        """
        if self.mode == "off":
            return self
        if self._loop is not None:
            raise ConfigError("this run was begun before; call midstep.attach again")
        with ExitStack() as undo:
            self._install(undo)
            self._undo = undo.pop_all()
        return self

    def close(self) -> None:
        """End what `start` began: finished, or stopped if it was. Closing twice is fine."""
        self._end(None)

    def __enter__(self) -> AttachedRun:
        return self.start()

    def _install(self, undo: ExitStack) -> None:
        """Signals, run, hooks, page: undone in reverse order, also when a later one fails."""
        from midstep.live.remembering import Recall, remember
        from midstep.session.hooks import LayerNorms
        from midstep.session.influence_command import InfluenceSource, offer_influence

        self._signals = undo.enter_context(stop_at_signals(self.controller, self._note_stop))
        page = self._reserve_page(undo)
        parts = self._parts
        loader = AttachedLoader(parts.loader, self._config.order, self._report_inexact)
        recall = Recall(parts, loader, self._config)
        self._run = undo.enter_context(self._open_run(parts))
        self._loop = LoopPort(self._run, parts.optimizers[0], parts.loader, parts.model)
        undo.callback(self._loop.detach)
        self._run.show(LayerNorms(), model=parts.model, optimizer=parts.optimizers[0])
        undo.enter_context(loader.change)
        loader.tell(self._loop)
        self._loop.order = loader.order
        remember(undo, self._run, self._loop, parts, loader, self._config, recall)
        if parts.declared["loss_fn"] is not None:
            source = InfluenceSource(
                model=parts.model, optimizers=parts.optimizers, loss_fn=parts.declared["loss_fn"]
            )
            undo.callback(offer_influence(self.controller, source))
        undo.enter_context(hook_optimizer(parts.optimizers[0], self._loop))
        undo.enter_context(hook_loss(parts.declared["loss_fn"], self._loop))
        if self._start_paused:
            self.controller.pause()
        if page is None:
            undo.enter_context(serve_on_socket(self._run))
        else:
            undo.callback(page.close)  # again: it goes before the run does
            page.show(self._run)
            self.url = page.url
            _say(f"page {self.url}")
        _say(f"run {_short(self._run.dir)}")
        for words in self._inexact:
            self._run.event(Moment.INTERVENTION, who="system", kind="inexact", reason=words)
        if recall.resumed is not None:
            place = recall.resumed.snapshot
            _say(f"goes on at step {place.step:,}, in epoch {place.epoch}")

    def _report_inexact(self, words: str) -> None:
        """Something that a resume or a step back cannot make exact: said once, and a fact."""
        _say(words)
        if self._run is None:
            self._inexact.append(words)
        else:
            self._run.event(Moment.INTERVENTION, who="system", kind="inexact", reason=words)

    def _is_signalled(self, error: BaseException | None) -> bool:
        return self._signals is not None and self._signals.caused(error)

    def _note_stop(self, cause: str) -> None:
        if self._run is not None:
            self._run.stop_reason = cause

    def _open_run(self, parts: AttachedParts) -> Run:
        return Run(
            controller=self.controller,
            model=parts.model,
            config=parts.describe(),
            seed=_torch_seed(),
            data_fingerprint=parts.data_fingerprint(),
            name=self._name,
            save_dir=self._config.save_dir,
            run_name=self._config.run_name,
            on_error=self._on_error,
            existing="refuse" if self._config.resume == "never" else "continue",
        )

    def _reserve_page(self, undo: ExitStack) -> Page | None:
        """The page, before a run directory is made, so that a refusal leaves none."""
        if not self._serve:
            return None
        page = Page(self._config.save_dir, self._port)
        undo.callback(page.close)
        return page

    def epochs(self, n: int) -> Iterator[int]:
        """Count epochs from 0 to `n - 1`; between two of them log what belongs to the first."""
        loop = self._begun()
        return iter(range(n)) if loop is None else loop.epochs(n)

    def log(self, **scalars: Any) -> None:
        """Scalars of the step in progress, or between epochs of what is finished.

        Numbers, or tensors of one element: for charts, breakpoints and the facts.
        """
        loop = self._begun()
        if loop is not None:
            loop.log(scalars)

    def show(self, *hooks: Hook) -> None:
        """Look inside the model with these hooks (`midstep.hooks`) while somebody watches."""
        if self._begun() is not None:
            self.opened_run().show(*hooks)

    def _begun(self) -> LoopPort | None:
        """The loop; None when switched off."""
        if self._loop is None and self.mode != "off":
            raise ConfigError(
                "enter it first: with midstep.attach(…) as run: (or run.start() in a notebook)"
            )
        if self._closed:
            raise ConfigError("this run is over; call midstep.attach again for another")
        return self._loop

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._end(error)
        return self._loop is not None and isinstance(error, StopTraining)

    def _end(self, error: BaseException | None) -> None:
        if self._loop is None or self._closed:
            return
        self._closed = True
        stopped = StopTraining("stopped by a signal")
        with self._undo:
            self._loop.end(stopped if error is not None and self._is_signalled(error) else error)
        del self._parts
        steps = self.step
        _say(f"{self.status} after {steps:,} step{'' if steps == 1 else 's'}")
        if self._is_signalled(error):
            raise SystemExit(0)


def _as_list(given: Any) -> list[Optimizer]:
    """One optimizer or several, checked."""
    from torch.optim import Optimizer

    optimizers = list(given) if isinstance(given, list | tuple) else [given]
    wrong = [optimizer for optimizer in optimizers if not isinstance(optimizer, Optimizer)]
    if wrong or not optimizers:
        what = type(wrong[0]).__name__ if wrong else "an empty list"
        raise ConfigError(f"optimizer must be a torch optimizer or a list of them, got {what}")
    return optimizers


def _say(words: str) -> None:
    """One line for whoever sits at the terminal."""
    sys.stderr.write(f"midstep: {words}\n")
    sys.stderr.flush()


def _short(path: Path) -> Path:
    """`path` as the user would type it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _script_name() -> str:
    stem = Path(sys.argv[0]).stem.strip("-._") if sys.argv else ""
    return stem or "run"


def _torch_seed() -> int:
    """The seed of torch's default generator; reading it moves nothing."""
    import torch

    return torch.initial_seed()
