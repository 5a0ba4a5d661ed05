"""Weights from before a stop: the snapshots of the ring, then the checkpoints on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from midstep.core.errors import MidstepError
from midstep.data.random_state import Generator
from midstep.session.diagnosis.diagnoser import TrainingAccess

if TYPE_CHECKING:
    from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
    from midstep.session.rewind.snapshot_ring import SnapshotRing
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import TrainingState


def training_access(
    state: TrainingState, ring: SnapshotRing, writer: CheckpointWriter
) -> TrainingAccess:
    """What the diagnosis of a stop reads of a training."""

    def before(step: int) -> Iterator[Snapshot]:
        held = ring.before(step)
        yield from held
        if held:
            return
        for name in writer.checkpoints.names():
            if name.step < step:
                try:
                    yield writer.checkpoints.read(name)
                except MidstepError:
                    continue  # damaged; `load_checkpoint` reports it

    def generators() -> list[Generator]:
        return [*state.known_generators, *state.user_generators.generators.values()]

    return TrainingAccess(snapshots=before, current_step=lambda: state.step, generators=generators)
