"""`attach`: a loop of the user's own, made stoppable by what it already has.

The loader tells where one step ends and the next begins, the optimizer tells that a step was made.
The boundary is the loader's next batch after an optimizer step: there scheduler, `zero_grad` and
weight averages have run, which is not yet so right after `optimizer.step()`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining
from midstep.live.hooks import hook_loss, hook_optimizer
from midstep.live.loader import LoaderPatch
from midstep.live.loop import Loop
from midstep.live.mode import Mode, current_mode
from midstep.live.page import Page
from midstep.live.signals import GracefulStop, stop_at_signals
from midstep.session import OnError, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from torch import nn
    from torch.optim import Optimizer

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
) -> AttachedRun:
    """Make a plain loop stoppable, steppable and visible inside a `with` block.

    Where no block fits, as in a notebook: `run = attach(…).start()`, and `run.close()` at the end.

    In the main thread SIGTERM and SIGHUP stop it at the next boundary, with a complete record and
    exit code 0, unless you handle them yourself; a second one ends the process at once.

    Args:
        model: the module in training; its parameters can be watched.
        optimizer: one, or several of which the first is the clock.
        loader: what the loop iterates over. Changed in place, put back when the block ends.
        scheduler: declared for what snapshots will hold.
        scaler: as `scheduler`.
        loss_fn: a module whose output is the loss; without it, log the loss.
        name: of the run; the script's name when left out.
        save_dir: where run directories are made.
        run_name: exactly `save_dir/run_name`; one that holds a run already is refused.
        serve: put it on the page, and say where on standard error.
        port: of the page; a free one when left out.
        start_paused: park before the first step.
        on_error: `park` or `raise`; see `Run`.
        controller: one of your own, for breakpoints set before the first step.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> loader = torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=4)
    >>> with attach(model, optimizer, loader, save_dir=tempfile.mkdtemp()) as run:
    ...     for epoch in run.epochs(2):
    ...         for x in loader:
    ...             loss = model(x).square().mean(); loss.backward()
    ...             optimizer.step(); optimizer.zero_grad(); run.log(loss=loss)
    >>> run.run.step
    4
    """
    optimizers = _as_list(optimizer)
    return AttachedRun(
        mode=current_mode(),
        model=model,
        optimizers=optimizers,
        loader=loader,
        declared={"scheduler": scheduler, "scaler": scaler, "loss_fn": loss_fn},
        settings={
            "name": name or _script_name(),
            "save_dir": save_dir,
            "run_name": run_name,
            "on_error": on_error,
        },
        port=port,
        serve=serve,
        controller=controller,
        start_paused=start_paused,
    )


@dataclass(frozen=True)
class _Parts:
    """The user's objects; let go of when the block ends."""

    model: nn.Module
    optimizers: list[Optimizer]
    loader: Any
    declared: dict[str, Any]

    def describe(self) -> dict[str, Any]:
        """What was attached, for the header record."""
        return {
            "model": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "optimizers": [type(optimizer).__name__ for optimizer in self.optimizers],
            "batch_size": getattr(self.loader, "batch_size", None),
            "workers": getattr(self.loader, "num_workers", None),
            **{key: type(part).__name__ for key, part in self.declared.items() if part is not None},
        }

    def data_fingerprint(self) -> dict[str, Any] | None:
        """Class, length and own fingerprint of the dataset; no sample is read for it."""
        dataset = getattr(self.loader, "dataset", None)
        if dataset is None:
            return None
        return {
            "class": type(dataset).__qualname__,
            "length": _asked(dataset, "__len__"),
            "own": _asked(dataset, "fingerprint"),
        }


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
        settings: dict[str, Any],
        serve: bool,
        port: int | None,
        controller: DebugController | None,
        start_paused: bool,
    ) -> None:
        self.mode = mode
        self._parts = _Parts(model, list(optimizers), loader, declared)
        self.controller = controller if controller is not None else DebugController()
        self.url: str | None = None
        """Address of the page with its token, while served."""
        self._settings, self._serve, self._port = settings, serve and mode == "live", port
        self._start_paused = start_paused
        self._run: Run | None = None
        self._loop: Loop | None = None
        self._closed = False
        self._signals: GracefulStop | None = None
        self._undo = ExitStack()

    @property
    def run(self) -> Run:
        """The run behind it: directory, facts, lease. Not there when switched off."""
        if self._run is None:
            raise ConfigError("there is no run: enter the block first, with MIDSTEP_MODE not off")
        return self._run

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
        self._signals = undo.enter_context(stop_at_signals(self.controller, self._note_stop))
        page = self._reserve_page(undo)
        parts = self._parts
        patch = LoaderPatch(parts.loader)
        self._run = undo.enter_context(self._open_run(parts))
        self._loop = Loop(self._run, parts.optimizers[0], parts.loader, parts.model)
        undo.callback(self._loop.detach)
        undo.enter_context(patch.applied(self._loop))
        undo.enter_context(hook_optimizer(parts.optimizers[0], self._loop))
        undo.enter_context(hook_loss(parts.declared["loss_fn"], self._loop))
        if self._start_paused:
            self.controller.pause()
        if page is not None:
            undo.callback(page.close)  # again: it goes before the run does
            page.show(self._run)
            self.url = page.url
            _say(f"page {self.url}")
        _say(f"run {_short(self._run.dir)}")

    def _is_signalled(self, error: BaseException | None) -> bool:
        return self._signals is not None and self._signals.caused(error)

    def _note_stop(self, cause: str) -> None:
        if self._run is not None:
            self._run.stop_reason = cause

    def _open_run(self, parts: _Parts) -> Run:
        return Run(
            controller=self.controller,
            model=parts.model,
            config=parts.describe(),
            seed=_torch_seed(),
            data_fingerprint=parts.data_fingerprint(),
            **self._settings,
        )

    def _reserve_page(self, undo: ExitStack) -> Page | None:
        """The page, before a run directory is made, so that a refusal leaves none."""
        if not self._serve:
            return None
        page = Page(self._settings["save_dir"], self._port)
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

    def _begun(self) -> Loop | None:
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
        steps = self.run.step
        _say(f"{self.run.status} after {steps:,} step{'' if steps == 1 else 's'}")
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


def _asked(dataset: Any, method: str) -> Any:
    """What a method of the dataset says; None where it has none, or that raises."""
    ask = getattr(dataset, method, None)
    try:
        return ask() if callable(ask) else None
    except Exception:  # noqa: BLE001 - somebody's own code; a record that lacks it is still one
        return None


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
