"""`TrainingState`: the whole state of a training at a step boundary, taken and restored.

Both drivers use it: `Session` with midstep's loop, and `attach` with the user's loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from midstep.core.errors import ControlError
from midstep.core.fault_guard import FaultGuard
from midstep.data.order.samplers import nested_samplers
from midstep.data.random_state import find_generators
from midstep.session.late_parameters import (
    add_created,
    check_has_all,
    check_optimizer,
    has_uninitialized,
)
from midstep.session.state.epoch_progress import DataPosition, EpochProgress
from midstep.session.state.generators import UserGenerators, generators_in_workers
from midstep.session.state.snapshot import Snapshot, tree_bytes
from midstep.session.state.step_position import KeptVariables, StepPosition
from midstep.session.state.training_parts import stateful_loss
from midstep.session.state.untracked_tensors import (
    LossAttributes,
    OptimizerAttributes,
    OtherModules,
    UntrackedTensors,
)

if TYPE_CHECKING:
    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.order.step_order import StepOrder
    from midstep.data.random_state import Generator
    from midstep.session.config import SessionConfig
    from midstep.session.state.generators import GeneratorSearch
    from midstep.session.state.large_arrays import LargeCopies
    from midstep.session.state.training_parts import TrainingParts

log = logging.getLogger("midstep.session")
WEIGHTS_EVERY = 16
"""The weights of every so many steps are sampled, and those of each step after a snapshot."""
MOST_MARKS = 1 << 12
"""Steps whose mark is kept; steps beyond that are repeated without being compared."""
MOST_DOTS = 2
"""An iterator or scheduler with more dots in its path belongs to something else than the step."""
FOUND_PARTS = frozenset(
    {
        "loss_fn",
        "loss_attributes",
        "untracked",
        "generators",
        "optimizer_attributes",
        "steps",
        "kept",
    }
)
"""Parts that checkpoints of earlier versions lack."""
OPTIONAL_PARTS = frozenset(
    {"generators", "loss_attributes", "optimizer_attributes", "steps", "kept"}
)
"""Parts that a checkpoint may have and the training no more."""


class StepMark(NamedTuple):
    """What a finished step is compared by when it is repeated. None for what is unknown."""

    ids: int | None
    """Running checksum of the sample ids of the epoch, or a checksum of the step's batches."""
    lr: Any
    """The learning rate that the step used; a tensor if it is on a device."""
    loss: Any
    """A number, or a tensor of one element."""
    weights: Any = None
    """Checksum of some weights after the step; a `PendingChecksum` if they are on a device."""


class StepMarker:
    """Takes the marks of steps.

    Args:
        model: its weights are sampled.
        order: has the checksum of the ids; None if the loader has no order.
    """

    def __init__(self, model: Any, order: OrderedLoader | StepOrder | None) -> None:
        self._model = model
        self._sample: Any = None  # made when it is first needed
        self._order = order if order is not None and order.has_sample_ids else None
        self._guard = FaultGuard("taking checksums of steps", log)
        self.are_weights_due = True
        """Whether the next step's weights are sampled, whatever its number."""

    def take(self, step: int, lr: Any, loss: Any, batches: Sequence[Any]) -> StepMark:
        """The mark of a finished step."""
        if self._order is not None and not self.are_weights_due and step % WEIGHTS_EVERY:
            return StepMark(self._order.checksum, lr, loss)  # nearly always
        ids, weights = self._guard.run(self._checksums, step, batches) or (None, None)
        return StepMark(ids, lr, loss, weights)

    def _checksums(self, step: int, batches: Sequence[Any]) -> tuple[int | None, Any]:
        due, self.are_weights_due = self.are_weights_due or not step % WEIGHTS_EVERY, False
        if self._order is not None:
            ids = self._order.checksum
        else:
            from midstep.data.batch_checksum import batch_checksum

            ids = batch_checksum(batches)
        if due and self._sample is None:
            from midstep.session.state.weights_checksum import WeightsSample

            self._sample = WeightsSample(self._model)
        return ids, self._sample.checksum() if due else None


def find_loader_generators(loader: Any) -> dict[str, Generator]:
    """The generators of a loader and its samplers, by name. Call it before patching the loader."""
    if loader is None:
        return {}
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    generators = find_generators(
        loader.generator, *nested_samplers(sampler), outside=(loader.dataset,)
    )
    return {f"order.{index}": each for index, each in enumerate(generators)}


class TrainingState:
    """Model, optimizers, order of the data, random generators and counters of one training.

    Of the variables of the user's own loop it has those that the user keeps.

    Args:
        parts: what is trained.
        order: the order of the training loader, or that of a loop without one.
        generators: of the loader and its samplers, see `find_loader_generators`.
        config: the settings of the run; every snapshot holds them.
        to_host: whether `take` clones tensors into host memory by default.
    """

    def __init__(
        self,
        parts: TrainingParts,
        order: OrderedLoader | StepOrder,
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
        self.steps, self.kept = StepPosition(), KeptVariables()
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
        self.user_generators = UserGenerators()
        """Generators that were found in the user's own code; saved like everything else."""
        self.other_modules = OtherModules(parts)
        """Modules that were found in the user's own code and that no snapshot holds."""
        self._untracked = UntrackedTensors(parts)
        self._attributes = OptimizerAttributes(parts.optimizers, parts.optimizer_names)
        self._loss_attributes = LossAttributes(parts.loss_fn)
        parts.extra_state.check()
        self._generators, self._to_host = generators, to_host
        self._position = DataPosition(order)
        self._marker = StepMarker(parts.model, order)
        self.last_mark: StepMark | None = None
        """The mark of the step that was finished last."""
        self.marks: deque[tuple[int, StepMark]] = deque(maxlen=MOST_MARKS)
        """Marks of the steps that the ring of snapshots reaches back to, each with its step."""
        self.losses: deque[tuple[int, Any]] = deque(maxlen=MOST_MARKS)
        """The losses of these steps, also of those whose marks are dropped after a change."""

    @property
    def epoch(self) -> int:
        """The running epoch."""
        return self.order.epoch

    @property
    def cursor(self) -> int:
        """Samples of this epoch that were trained on."""
        return self.order.cursor

    @property
    def position(self) -> tuple[int, int, int, int, int, int]:
        """Timeline, step, epoch, cursor, loop and index: equal for equal states of one process."""
        order, steps = self.order, self.steps
        return self.timeline, self.step, order.epoch, order.cursor, steps.loop, steps.index

    def describe_position(self) -> dict[str, Any]:
        """The position as commands return it."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "cursor": self.cursor,
            "timeline": self.timeline,
        }

    def take(self, *, to_host: bool | None = None, large: LargeCopies | None = None) -> Snapshot:
        """Clone the whole state. Only at a boundary, where no batch was fetched ahead.

        Args:
            to_host: clone into host memory at once.
            large: copies large arrays apart, see `Snapshot.take`.

        Raises:
            ControlError: a step is in progress, as after one that raised.
        """
        if self.in_step:
            raise ControlError(
                f"step {self.step + 1} was begun and has not ended, so there is no state to "
                "continue from; load the last checkpoint instead"
            )
        # The first step after a snapshot is the first that a repetition makes: more is compared.
        self._marker.are_weights_due = True
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
            large=large,
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
        # All checks come first: half a restore would be a state that no training ever had.
        self.check_fits(snapshot)
        for key, optimizer in zip(self.parts.optimizer_keys, self.parts.optimizers, strict=True):
            check_optimizer(optimizer, snapshot.states.get(key, {}))
        self.before_restore()
        parts, snapshot = self._matching(snapshot)
        snapshot.restore(parts, generators=self._generators)
        if seek_data:
            # After the generators: the user's own order is drawn again from `epoch_random`, and
            # then puts the generators back to the states that they have here.
            self._position.seek(snapshot.epoch_random)
        self.step, self.timeline = snapshot.step, snapshot.timeline
        self._marker.are_weights_due = True
        if self.step:
            for optimizer in self.parts.optimizers:
                # Else a scheduler that steps first in this process warns of a wrong order.
                optimizer._opt_called = True  # type: ignore[attr-defined]

    def _matching(self, snapshot: Snapshot) -> tuple[dict[str, Any], Snapshot]:
        """The parts to restore, and the snapshot without states that nothing takes.

        Checkpoints of earlier versions lack some parts. What was found in the user's code may have
        gone.
        """
        parts = self._stateful()
        present = {name for name, part in parts.items() if part is not None}
        for name in present & FOUND_PARTS - snapshot.states.keys():
            log.warning(
                "the checkpoint of step %d has no %s; it stays as it is", snapshot.step, name
            )
            parts[name] = None
        gone = snapshot.states.keys() & OPTIONAL_PARTS - present
        if "generators" in gone:  # the loop makes them later, and gets their states then
            self.user_generators.load_state_dict(snapshot.states["generators"])
        if gone:
            states = {name: each for name, each in snapshot.states.items() if name not in gone}
            snapshot = replace(snapshot, states=states)
        return parts, snapshot

    def restore_found(self, snapshot: Snapshot) -> None:
        """Restore what was found besides the declared parts, where both have it."""
        for name in FOUND_PARTS & snapshot.states.keys():
            # A loop makes generators after the resume, and gets their states then.
            part = self.user_generators if name == "generators" else self._stateful().get(name)
            if part is not None:
                part.load_state_dict(snapshot.states[name])

    def look_for_state(self, search: GeneratorSearch) -> list[str]:
        """Save the generators of a search; returns what cannot be saved, in words."""
        self.user_generators.add(search.generators)
        return self.other_modules.watch(search.modules) + [
            f"{words} is in no state; give it with scheduler=, scaler=, optimizer= or extra_state="
            for path, words in search.unsaved.items()
            if path.count(".") <= MOST_DOTS
        ]

    def unsaved_state(self) -> list[str]:
        """What the training depends on and no snapshot can hold, in words."""
        problems = [
            f"{name} holds tensors in a form that cannot be saved; keep them in the optimizer's "
            "`state`"
            for name in self._attributes.unsaved
        ]
        problems += [
            f"{words}; the environment is not exact until its next reset"
            for words in self.parts.extra_state.unsaved()
        ]
        problems += [
            f"{path} is a generator in the loader's workers, which end with their generators; "
            "use num_workers=0, or draw from the global generators under a seeded order"
            for path in generators_in_workers(self.parts.train_loader)
        ]
        return problems

    def untracked_words(self) -> list[str]:
        """Which tensors are saved although no declared part holds them."""
        return list(self._untracked.words())

    @property
    def known_generators(self) -> list[Generator]:
        """The generators of the loader and its samplers."""
        return list(self._generators.values())

    def restore_position(self, snapshot: Snapshot, *, seek_data: bool = True) -> None:
        """Restore the generators and the position in the data; leave everything else unchanged."""
        self.before_restore()
        snapshot.random.restore(self._generators)
        self._position.load_state_dict(snapshot.states["order"])
        if seek_data:
            self._position.seek(snapshot.epoch_random)

    def begin_epoch(self, epoch: int) -> None:
        """Move to the first sample of an epoch, whatever was trained of it."""
        self.before_restore()
        self.order.set_epoch(epoch + 1)  # setting the running epoch would keep its cursor
        self.order.set_epoch(epoch)
        self.progress.begin_epoch(self.step)

    def state_bytes(self, large: LargeCopies | None = None) -> int:
        """Bytes that the arrays of a snapshot would take, without blocks that `large` shares."""
        present = {name: part for name, part in self._stateful().items() if part is not None}
        live = {name: part.state_dict() for name, part in present.items()}
        return tree_bytes(live) - (0 if large is None else large.shared_bytes(live))

    def mark_step(
        self, lr: Any, loss: Any, batches: Sequence[Any], *, is_repeated: bool = False
    ) -> StepMark:
        """Take the mark of the step that was just counted; one made for the first time is kept."""
        mark = self.last_mark = self._marker.take(self.step, lr, loss, batches)
        if not is_repeated:  # a repeated step is compared with its first mark
            self.marks.append((self.step, mark))
            while self.losses and self.losses[-1][0] >= self.step:
                self.losses.pop()  # of a timeline that was left
            self.losses.append((self.step, loss))
        return mark

    def keep_marks(self, is_kept: Callable[[int], bool]) -> None:
        """Drop the marks of the steps that are not kept."""
        self.marks = deque((each for each in self.marks if is_kept(each[0])), MOST_MARKS)

    def _stateful(self) -> dict[str, Any]:
        """Everything with a state, under its name in checkpoints; None for what is absent."""
        parts = self.parts
        return {
            "model": parts.model,
            **dict(zip(parts.optimizer_keys, parts.optimizers, strict=True)),
            "scheduler": parts.scheduler,
            "scaler": self.scaler,
            "loss_fn": stateful_loss(parts.loss_fn),
            "loss_attributes": self._loss_attributes or None,
            "untracked": self._untracked or None,
            "optimizer_attributes": self._attributes or None,
            "generators": self.user_generators or None,
            # Checkpoints call the user's extra state `also`, as they did from the start.
            "also": parts.extra_state or None,
            "steps": self.steps or None,
            "kept": self.kept or None,
            "progress": self.progress,
            "order": self._position,
        }
