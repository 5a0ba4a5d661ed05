"""`TrainingState`: the whole state of a training at a step boundary, taken and restored.

Both drivers use it: `Session` with midstep's loop, and `attach` with the user's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ControlError
from midstep.data.order.samplers import nested_samplers
from midstep.data.random_state import find_generators
from midstep.session.late_parameters import (
    add_created,
    check_has_all,
    check_optimizer,
    has_uninitialized,
)
from midstep.session.state.epoch_progress import DataPosition, EpochProgress
from midstep.session.state.snapshot import Snapshot, tree_bytes

if TYPE_CHECKING:
    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.random_state import Generator
    from midstep.session.config import SessionConfig
    from midstep.session.state.training_parts import TrainingParts


Witness = tuple[tuple[Any, ...], ...]
"""Named entries that summarise the steps of an epoch; equal if the steps are repeated exactly."""


def find_loader_generators(loader: Any) -> dict[str, Generator]:
    """The generators of a loader and its samplers, by name. Call it before patching the loader."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    generators = find_generators(
        loader.generator, *nested_samplers(sampler), outside=(loader.dataset,)
    )
    return {f"order.{index}": each for index, each in enumerate(generators)}


class TrainingState:
    """Model, optimizers, order of the data, random generators and counters of one training.

    Local variables of the user's own loop are not part of it.

    Args:
        parts: what is trained.
        order: the order of the training loader.
        generators: of the loader and its samplers, see `find_loader_generators`.
        config: the settings of the run; every snapshot holds them.
        to_host: whether `take` clones tensors into host memory by default.
    """

    def __init__(
        self,
        parts: TrainingParts,
        order: OrderedLoader,
        generators: Mapping[str, Generator],
        config: SessionConfig,
        *,
        to_host: bool = False,
    ) -> None:
        self.parts, self.order, self.config = parts, order, config
        self.step = 0
        """Finished optimizer steps."""
        self.timeline = 0
        self.progress = EpochProgress()
        self.scaler: Any = parts.scaler
        """The gradient scaler: the user's, or the one that a session made for fp16."""
        self.fingerprints: Mapping[str, Any] = {}
        """What must be equal at a resume; every snapshot holds it."""
        self.origin: Callable[[], Mapping[str, Any]] = dict
        """Returns the origin of a snapshot that is taken now; set by the engine of an open run."""
        self.in_step = False
        """Whether a step was begun and has not ended. Only a session knows it."""
        self.before_restore: Callable[[], object] = lambda: None
        """Called before a restore: a session drops its running iterator and its gradients."""
        self._generators, self._to_host = generators, to_host
        self._position = DataPosition(order)

    @property
    def epoch(self) -> int:
        """The running epoch."""
        return self.order.epoch

    @property
    def cursor(self) -> int:
        """Samples of this epoch that were trained on."""
        return self.order.cursor

    @property
    def position(self) -> tuple[int, int, int, int]:
        """Timeline, step, epoch and cursor: equal for equal states of one process."""
        return self.timeline, self.step, self.order.epoch, self.order.cursor

    def describe_position(self) -> dict[str, Any]:
        """The position as commands return it."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "cursor": self.cursor,
            "timeline": self.timeline,
        }

    def take(self, *, to_host: bool | None = None) -> Snapshot:
        """Clone the whole state. Only at a boundary, where no batch was fetched ahead.

        Raises:
            ControlError: a step is in progress, as after one that raised.
        """
        if self.in_step:
            raise ControlError(
                f"step {self.step + 1} was begun and has not ended, so there is no state to "
                "continue from; load the last checkpoint instead"
            )
        return Snapshot.take(
            self._stateful(),
            step=self.step,
            epoch=self.epoch,
            cursor=self.cursor,
            timeline=self.timeline,
            generators=self._generators,
            epoch_random=self.order.random_state(),
            config=self.config.describe(),
            fingerprints=self.fingerprints,
            origin=self.origin(),
            to_host=self._to_host if to_host is None else to_host,
        )

    def is_lazy(self) -> bool:
        """Whether the model has parameters without a shape, so that no snapshot can be taken."""
        return has_uninitialized(self.parts.model)

    def check_fits(self, snapshot: Snapshot) -> None:
        """Raise `ConfigError` if the model or the optimizer has other parameters now.

        Parameters that `forward` had created are added to the model first.
        """
        model, saved = self.parts.model, snapshot.states.get("model")
        if not isinstance(saved, Mapping) or saved.keys() == model.state_dict().keys():
            return
        add_created(model, saved, snapshot.origin.get("created", {}))
        check_has_all(model, saved, snapshot.step)

    def restore(self, snapshot: Snapshot, *, seek_data: bool = True) -> None:
        """Restore parts, generators, counters and, with `seek_data`, the position in the data."""
        self.check_fits(snapshot)
        check_optimizer(self.parts.optimizer, snapshot.states.get("optimizer", {}))
        self.before_restore()
        snapshot.restore(self._stateful(), generators=self._generators)
        if seek_data:
            self._position.seek(snapshot.epoch_random)
        self.step, self.timeline = snapshot.step, snapshot.timeline
        if self.step:
            for optimizer in self.parts.optimizers:
                # Else a scheduler that steps first in this process warns of a wrong order.
                optimizer._opt_called = True  # type: ignore[attr-defined]

    def restore_position(self, snapshot: Snapshot) -> None:
        """Restore the generators and the position in the data; leave everything else unchanged."""
        self.before_restore()
        snapshot.random.restore(self._generators)
        self._position.load_state_dict(snapshot.states["order"])
        self._position.seek(snapshot.epoch_random)

    def begin_epoch(self, epoch: int) -> None:
        """Move to the first sample of an epoch, whatever was trained of it."""
        self.before_restore()
        self.order.set_epoch(epoch + 1)  # setting the running epoch would keep its cursor
        self.order.set_epoch(epoch)
        self.progress.begin_epoch(self.step)

    def state_bytes(self) -> int:
        """Bytes that the tensors of a snapshot would take."""
        present = (part for part in self._stateful().values() if part is not None)
        return tree_bytes([part.state_dict() for part in present])

    def witness(self) -> Witness:
        """A cheap summary of the steps of this epoch; an exact repetition has the same."""
        order, progress = self.order, self.progress
        return (
            ("batch ids", order.epoch, order.cursor, order.checksum),
            ("loss", progress.loss_sum, progress.loss_count, progress.skipped),
        )

    def _stateful(self) -> dict[str, Any]:
        """Everything with a state, under its name in checkpoints; None for what is absent."""
        parts = self.parts
        further = {f"optimizer.{i}": each for i, each in enumerate(parts.optimizers[1:], start=1)}
        return {
            "model": parts.model,
            "optimizer": parts.optimizer,
            **further,
            "scheduler": parts.scheduler,
            "scaler": self.scaler,
            # Checkpoints call the user's extra state `also`, as they did from the start.
            "also": parts.extra_state or None,
            "progress": self.progress,
            "order": self._position,
        }
