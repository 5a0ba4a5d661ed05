"""How a session begins: its generators, its run directory, and the facts about where it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from midstep.control import DebugController
from midstep.core.errors import ConfigError
from midstep.core.streams import stream_key
from midstep.data.randomness import seed_global
from midstep.session.config import SessionConfig
from midstep.session.outcomes import TrainingParts
from midstep.session.resuming import Resumed
from midstep.session.run import Run
from midstep.session.training import Training

__all__ = ["beginning", "controller_for", "open_run", "seed_all"]


def seed_all(seed: int) -> None:
    """Every global generator from the run's seed, those of devices too."""
    key = stream_key(seed, "training")
    seed_global(key)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(key)


def controller_for(
    run: Run | None, controller: DebugController | None, config: SessionConfig
) -> DebugController:
    """The controller of a session: that of the run it is given, the user's, or a new one.

    Raises:
        ConfigError: the run given does not go with the controller, or with a resume.
    """
    if run is None:
        return DebugController() if controller is None else controller
    if controller is not None and controller is not run.controller:
        raise ConfigError("the session was given a run and another controller; leave that out")
    if config.resume != "never":
        raise ConfigError(
            f"resume={config.resume!r} looks for save_dir/run_name, but the session was given a "
            "run that is open already; leave either out"
        )
    return run.controller


def open_run(config: SessionConfig, training: Training, controller: DebugController) -> Run:
    """The run of a session: a new directory, or the next attempt in an old one."""
    return Run(
        name=config.run_name or config.project or "session",
        save_dir=config.save_dir,
        run_name=config.run_name,
        config={**config.describe(), **_words_of(training.parts)},
        seed=config.seed,
        controller=controller,
        model=training.parts.model,
        data_fingerprint=training.fingerprints.get("dataset"),
        existing="refuse" if config.resume == "never" else "continue",
    )


def beginning(inexact: Iterable[str], resumed: Resumed | None) -> Iterator[dict[str, Any]]:
    """The facts about a beginning: what is not exact, what was passed over, allowed, resumed."""
    for text in inexact:
        yield {"kind": "inexact", "reason": text}
    if resumed is None:
        return
    for problem in resumed.problems:
        yield {"kind": "checkpoint_refused", "reason": problem}
    for name, words in resumed.changed.items():
        yield {"kind": "change_allowed", "field": name, "reason": words}
    place = resumed.snapshot
    yield {
        "kind": "resume",
        "step": place.step,
        "epoch": place.epoch,
        "cursor": place.cursor,
        "path": f"checkpoints/{resumed.path.name}",
    }


def _words_of(parts: TrainingParts) -> dict[str, Any]:
    """What is trained, for the header record."""
    loader = parts.train_loader
    named = {"scheduler": parts.scheduler, "scaler": parts.scaler, "loss_fn": parts.loss_fn}
    return {
        "model": type(parts.model).__name__,
        "parameters": sum(p.numel() for p in parts.model.parameters()),
        "optimizer": type(parts.optimizer).__name__,
        "batch_size": getattr(loader, "batch_size", None),
        "workers": getattr(loader, "num_workers", None),
        **{name: type(part).__name__ for name, part in named.items() if part is not None},
    }
