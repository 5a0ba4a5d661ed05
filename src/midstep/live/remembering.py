"""Puts a memory beside an attached loop: which checkpoint to go on from, and where new ones go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.moments import Moment
from midstep.live.commands import register_commands
from midstep.live.memory import LoopMemory
from midstep.live.state import LoopState, loader_generators
from midstep.session.checkpoints import Checkpoints
from midstep.session.fingerprint import fingerprints
from midstep.session.keeper import Keeper
from midstep.session.resuming import Resumed, fingerprints_of, look_for
from midstep.session.rewind import RewindRing
from midstep.session.training import TrainingParts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from midstep.live.loop import Loop
    from midstep.live.order import AttachedLoader
    from midstep.live.parts import AttachedParts
    from midstep.session import Run
    from midstep.session.config import SessionConfig

__all__ = ["Recall", "remember"]

_ALLOW = re.compile(r"; if that is meant, resume with allow_changed=\([^)]*\)")


class Recall:
    """What is known before the run directory is touched: the training, and what to go on from.

    Args:
        parts: the user's objects.
        loader: the loader, under its policy.
        config: whether to resume, and what.

    Raises:
        ConfigError: the loop cannot be resumed, or the checkpoint is of another training.
    """

    def __init__(self, parts: AttachedParts, loader: AttachedLoader, config: SessionConfig) -> None:
        if config.resume != "never" and loader.unordered is not None:
            raise ConfigError(f"resume={config.resume!r} is not possible: {loader.unordered}")
        self.generators = loader_generators(parts.loader) if loader.order is not None else {}
        """Of the loader and its samplers, found before they are changed."""
        self.fingerprints: Mapping[str, Any] = _fingerprints(parts, config)
        try:
            self.resumed: Resumed | None = look_for(config, self.fingerprints)
        except ConfigError as error:
            # What a session may be told to accept, a loop that is not ours cannot be.
            words = _ALLOW.sub("", str(error))
            if words == str(error):
                raise
            raise ConfigError(f"{words}. Change that back, or choose another run_name") from None


def _fingerprints(parts: AttachedParts, config: SessionConfig) -> dict[str, Any]:
    """By what a resume knows the training again; data are read only where one is asked for."""
    clock = parts.optimizers[0]
    if config.resume == "never":
        return fingerprints(model=parts.model, optimizer=clock, seed=config.seed)
    known = TrainingParts(
        model=parts.model, optimizer=clock, loss_fn=None, train_loader=parts.loader
    )
    return fingerprints_of(known, config)


def remember(
    undo: ExitStack,
    run: Run,
    loop: Loop,
    parts: AttachedParts,
    loader: AttachedLoader,
    config: SessionConfig,
    recall: Recall,
) -> None:
    """Give the loop its memory, where its loader has an order, and offer the commands."""
    memory: LoopMemory | None = None
    if loader.order is not None:
        state = LoopState(
            model=parts.model,
            optimizers=parts.optimizers,
            declared=parts.declared,
            order=loader.order,
            generators=recall.generators,
            progress=loop.book,
            config=config,
            fingerprints=recall.fingerprints,
        )
        keeper = _keeper(undo, run, config)
        ring = RewindRing(config.rewind_bytes, config.rewind_steps)
        memory = LoopMemory(state, run, keeper, ring, config, recall.resumed)
        undo.callback(memory.close)
        loop.memory = memory
    withdraw = register_commands(
        run,
        memory,
        optimizer=parts.optimizers[0],
        scheduler=parts.declared["scheduler"],
        why_not=loader.unordered,
    )
    undo.callback(withdraw)
    if recall.resumed is not None:
        _tell_resumed(run, recall.resumed)


def _keeper(undo: ExitStack, run: Run, config: SessionConfig) -> Keeper:
    def tell(**fields: Any) -> None:
        run.event(Moment.INTERVENTION, who="system", **fields)

    checkpoints = Checkpoints(run.dir, keep=config.checkpoint_keep)
    keeper = Keeper(checkpoints, tell=tell, hold=run.controller.hold)
    undo.callback(keeper.wait)
    return keeper


def _tell_resumed(run: Run, resumed: Resumed) -> None:
    """What is gone on from, as facts."""
    place = resumed.snapshot
    told: list[dict[str, Any]] = [
        {"kind": "checkpoint_refused", "reason": problem} for problem in resumed.problems
    ]
    told.append(
        {
            "kind": "resume",
            "step": place.step,
            "epoch": place.epoch,
            "cursor": place.cursor,
            "path": f"checkpoints/{resumed.path.name}",
        }
    )
    for fields in told:
        run.event(Moment.INTERVENTION, who="system", **fields)
