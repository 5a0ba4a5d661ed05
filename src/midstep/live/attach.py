"""`attach`: a loop of the user's own, made stoppable by what it already has.

The loader tells where one step ends and the next begins, the optimizer tells that a step was made.
The boundary is the loader's next batch after an optimizer step: there scheduler, `zero_grad` and
weight averages have run, which is not yet so right after `optimizer.step()`.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining
from midstep.live.hooks import hook_loss, hook_optimizer
from midstep.live.loader import LoaderPatch
from midstep.live.loop import Loop
from midstep.session import OnError, Run

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from torch import nn
    from torch.optim import Optimizer

__all__ = ["AttachedRun", "Mode", "attach"]

Mode = Literal["live", "record", "off"]
"""Value of MIDSTEP_MODE: as the call says, facts without a server, or nothing at all."""


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

    Args:
        model: the module in training; its parameters can be watched.
        optimizer: one, or several of which the first is the clock.
        loader: what the loop iterates over. Changed in place, put back when the block ends.
        scheduler: declared for what snapshots will hold.
        scaler: as `scheduler`.
        loss_fn: a module whose output is the loss; without it, log the loss.
        name: of the run; the script's name when left out.
        save_dir: where run directories are made.
        run_name: exactly `save_dir/run_name`.
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
        mode=_mode(),
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


class AttachedRun:
    """A run of a plain loop: enter it, loop, leave it. Made by `attach`."""

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
        self._undo = ExitStack()

    @property
    def run(self) -> Run:
        """The run behind it: directory, facts, lease. Not there when switched off."""
        if self._run is None:
            raise ConfigError("there is no run: enter the block first, with MIDSTEP_MODE not off")
        return self._run

    def __enter__(self) -> AttachedRun:
        if self.mode == "off":
            return self
        if self._loop is not None:
            raise ConfigError("this block was entered before; call midstep.attach again")
        with ExitStack() as undo:
            self._install(undo)
            self._undo = undo.pop_all()
        return self

    def _install(self, undo: ExitStack) -> None:
        """Run, hooks, page: each is undone in reverse order, also when a later one fails."""
        listening = self._listen(undo)
        parts = self._parts
        patch = LoaderPatch(parts.loader)
        self._run = undo.enter_context(self._open_run(parts))
        self._loop = Loop(self._run, parts.optimizers[0], parts.loader)
        undo.callback(self._loop.detach)
        undo.enter_context(patch.applied(self._loop))
        undo.enter_context(hook_optimizer(parts.optimizers[0], self._loop))
        undo.enter_context(hook_loss(parts.declared["loss_fn"], self._loop))
        if self._start_paused:
            self.controller.pause()
        if listening is not None:
            self._put_on_page(undo, listening)

    def _open_run(self, parts: _Parts) -> Run:
        return Run(
            controller=self.controller,
            model=parts.model,
            config=parts.describe(),
            seed=_torch_seed(),
            **self._settings,
        )

    def _listen(self, undo: ExitStack) -> socket.socket | None:
        """The page's port, taken before a run directory is made, so that a refusal leaves none."""
        if not self._serve:
            return None
        from midstep.live.serve import listen

        listening = listen(self._settings["save_dir"], "127.0.0.1", self._port)
        undo.callback(listening.close)
        return listening

    def _put_on_page(self, undo: ExitStack, listening: socket.socket) -> None:
        from midstep.live.serve import ServedRun

        served = ServedRun(self.run, listening)
        undo.callback(served.close)
        self.url = served.url
        sys.stderr.write(f"midstep: {self.url}\n")
        sys.stderr.flush()

    def epochs(self, n: int) -> Iterator[int]:
        """Count epochs from 0 to `n - 1`; between two of them log what belongs to the first."""
        if self._loop is None:
            return iter(range(n))
        return self._loop.epochs(n)

    def log(self, **scalars: Any) -> None:
        """Scalars of the step in progress, or between epochs of what is finished.

        Numbers, or tensors of one element: for charts, breakpoints and the facts.
        """
        if self._loop is not None:
            self._loop.log(scalars)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._loop is None:
            return False
        with self._undo:
            self._loop.end(error)
        del self._parts
        return isinstance(error, StopTraining)


def _as_list(given: Any) -> list[Optimizer]:
    """One optimizer or several, checked."""
    from torch.optim import Optimizer

    optimizers = list(given) if isinstance(given, list | tuple) else [given]
    wrong = [optimizer for optimizer in optimizers if not isinstance(optimizer, Optimizer)]
    if wrong or not optimizers:
        what = type(wrong[0]).__name__ if wrong else "an empty list"
        raise ConfigError(f"optimizer must be a torch optimizer or a list of them, got {what}")
    return optimizers


def _mode() -> Mode:
    value = os.environ.get("MIDSTEP_MODE") or "live"
    if value not in get_args(Mode):
        raise ConfigError(f"MIDSTEP_MODE is {value!r}; set it to live, record or off, or unset it")
    return cast("Mode", value)


def _script_name() -> str:
    stem = Path(sys.argv[0]).stem.strip("-._") if sys.argv else ""
    return stem or "run"


def _torch_seed() -> int:
    """The seed of torch's default generator; reading it moves nothing."""
    import torch

    return torch.initial_seed()
