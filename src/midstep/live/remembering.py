"""Puts a memory beside an attached loop: which checkpoint to go on from, and where new ones go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.moments import Moment
from midstep.live.commands import register_commands
from midstep.live.memory import LoopMemory
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
from midstep.session.checkpoint.fingerprint import fingerprints
from midstep.session.engine.resume import ResumePoint, find_resume_point, fingerprints_of
from midstep.session.fit.trainer import TrainingParts
from midstep.session.rewind.snapshot_ring import SnapshotRing
from midstep.session.state.training_state import TrainingState, loader_generators

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from midstep.live.loop_port import LoopPort
    from midstep.live.plain_loop import AttachedLoader
    from midstep.session import Run
    from midstep.session.config import SessionConfig
    from midstep.session.state.training_parts import AttachedParts

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
            self.resumed: ResumePoint | None = find_resume_point(config, self.fingerprints)
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
    loop: LoopPort,
    parts: AttachedParts,
    loader: AttachedLoader,
    config: SessionConfig,
    recall: Recall,
) -> None:
    """Give the loop its memory, where its loader has an order, and offer the commands."""
    memory: LoopMemory | None = None
    if loader.order is not None:
        state = TrainingState(
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
        ring = SnapshotRing(config.rewind_bytes, config.rewind_steps)
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


def _keeper(undo: ExitStack, run: Run, config: SessionConfig) -> CheckpointWriter:
    def tell(**fields: Any) -> None:
        run.event(Moment.INTERVENTION, who="system", **fields)

    checkpoints = CheckpointStore(run.dir, keep=config.checkpoint_keep)
    keeper = CheckpointWriter(checkpoints, tell=tell, hold=run.controller.boundary.hold)
    undo.callback(keeper.wait)
    return keeper


def _tell_resumed(run: Run, resumed: ResumePoint) -> None:
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
