"""The state of an attached loop at a boundary: taken, put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstep.data.order.samplers import nested_samplers
from midstep.data.random_state import find_generators
from midstep.session.state.epoch_progress import DataPosition
from midstep.session.state.snapshot import Snapshot

if TYPE_CHECKING:
    from midstep.core.protocols import Stateful
    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.session.config import SessionConfig

__all__ = ["TrainingState", "loader_generators"]


def loader_generators(loader: Any) -> dict[str, Any]:
    """The generators of a loader and its samplers, by name; asked before it is changed."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    own = find_generators(loader.generator, *nested_samplers(sampler), outside=(loader.dataset,))
    return {f"order.{index}": each for index, each in enumerate(own)}


class TrainingState:
    """What was declared to `attach`, the order of the data, and every generator.

    The user's local variables are no part of it, and nothing can make them so.

    Args:
        model: in training.
        optimizers: all of them; the first is the clock.
        declared: scheduler and scaler, where they were given.
        order: the loader's order.
        generators: those of the loader and its samplers, see `loader_generators`.
        progress: counters of the epoch, with a state of their own.
        config: settings of the run; they go into every snapshot.
        fingerprints: by which a resume knows the training again.
    """

    def __init__(
        self,
        *,
        model: Any,
        optimizers: Sequence[Any],
        declared: Mapping[str, Any],
        order: OrderedLoader,
        generators: Mapping[str, Any],
        progress: Stateful,
        config: SessionConfig,
        fingerprints: Mapping[str, Any],
    ) -> None:
        self.order, self.timeline = order, 0
        self._place, self._config, self._fingerprints = DataPosition(order), config, fingerprints
        self._optimizers: Sequence[Any] = optimizers
        others = {f"optimizer.{i}": each for i, each in enumerate(optimizers[1:], start=1)}
        self._parts: dict[str, Any] = {
            "model": model,
            "optimizer": optimizers[0],
            **others,
            "scheduler": declared.get("scheduler"),
            "scaler": declared.get("scaler"),
            "progress": progress,
        }
        self._generators = generators

    def take(self, step: int) -> Snapshot:
        """The whole state, cloned into host memory."""
        return Snapshot.take(
            {**self._parts, "order": self._place},
            step=step,
            epoch=self.order.epoch,
            cursor=self.order.cursor,
            timeline=self.timeline,
            generators=self._generators,
            epoch_random=self.order.random_state(),
            config=self._config.describe(),
            fingerprints=self._fingerprints,
            to_host=True,
        )

    def restore(self, snapshot: Snapshot, *, place: bool = True) -> None:
        """Stand where the snapshot was taken; without `place` the loader stays where it is."""
        snapshot.restore({**self._parts, "order": self._place}, generators=self._generators)
        if snapshot.step:
            for each in self._optimizers:
                each._opt_called = True  # else a scheduler complains that it steps too early
        if place:
            self._place.go(snapshot.epoch_random)
