"""The user's loader under an order policy: changed in place, resumable at every boundary.

Exactly what is promised for which sampler, worker count and policy stands in docs/data-order.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, IterDataPipe, MapDataPipe

from midstep.core.errors import ConfigError, FormatError
from midstep.data.courses import Course, OrderConfig, Setting, warn
from midstep.data.in_place import InPlace
from midstep.data.passes import BatchListener, OrderedPass, Passes
from midstep.data.randomness import RandomState, generators_of
from midstep.data.recorded import RecordedCourse
from midstep.data.seeded import SeededCourse
from midstep.data.streamed import StreamCourse

__all__ = ["OrderedLoader"]

_FORMAT = 1


class OrderedLoader:
    """A loader whose order follows a policy, for as long as a `with` block lasts.

    The user's own loader is iterated as before. `commit` after each optimizer step moves the cursor
    of trained samples; what `state_dict` gives then brings another process to the same place.

    Args:
        loader: the user's `DataLoader`; its workers, pinning, collate function and generator stay.
        config: the policy, the seed, and what to do where a resume cannot be exact.
        listener: told of every batch and its ids, from the training thread.
        report: called once for each thing that is not exact, if that is not refused.

    Raises:
        ConfigError: if the loader cannot be made exact under this policy.

    >>> from torch.utils.data import DataLoader
    >>> loader = DataLoader(range(6), batch_size=2, shuffle=True)
    >>> with OrderedLoader(loader, OrderConfig(policy="epoch_reseed", seed=1)) as order:
    ...     batches = [batch.tolist() for batch in loader]
    ...     order.seek(epoch=0, cursor=4)
    ...     [batch.tolist() for batch in loader] == batches[2:]
    True
    """

    def __init__(
        self,
        loader: Any,
        config: OrderConfig,
        *,
        listener: BatchListener | None = None,
        report: Callable[[str], object] = warn,
    ) -> None:
        self._place = InPlace(loader, self._start)
        self._setting = Setting(self._place, config, report)
        self._config, self._length = config, _length(loader)
        _check_dataset(self._setting)
        self._course = _course(self._setting)
        self._passes = Passes(self._setting, self._course, listener)
        self._entered = False

    # -- the place --------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the present or next pass."""
        return self._setting.trained.epoch

    @property
    def cursor(self) -> int:
        """Samples of this epoch that were trained on."""
        return self._setting.trained.cursor

    @property
    def checksum(self) -> int | None:
        """Of the ids behind the cursor; two passes with the same one had the same order."""
        return self._setting.trained.checksum

    @property
    def passes(self) -> int:
        """How many passes over the loader were begun so far."""
        return self._passes.started

    @property
    def problems(self) -> list[str]:
        """What is not exact, if it was not refused."""
        return list(self._setting.problems)

    def commit(self, count: int | None = None) -> None:
        """A step is done: what was handed out, or `count` samples of it, is trained on."""
        self._setting.trained.commit(count)

    def set_epoch(self, epoch: int) -> None:
        """The next pass belongs to `epoch`; naming the present epoch keeps the cursor.

        Without it each pass that was trained on, or came to its end, is an epoch.
        """
        self._passes.tell_epoch(epoch)

    def seek(self, epoch: int, cursor: int = 0) -> None:
        """Go to sample `cursor` of `epoch`: a running pass goes on from there at once."""
        again = self._passes.begun
        if not self._config.seeded and epoch != self.epoch:
            raise ConfigError(
                f"policy 'user' knows only where epoch {self.epoch} began; to go to epoch {epoch} "
                "load a state that was saved in it"
            )
        if cursor and not (self._config.seeded or again):
            raise ConfigError(f"epoch {epoch} has not begun, so policy 'user' has no order for it")
        self._setting.trained.place(epoch, cursor)
        self._passes.go_on(again=again)

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler of the same kind, from the next batch on; workers live on.

        The epoch begins anew with it. The loader gets its own sampler back at the end.
        """
        self._course.use_sampler(sampler)
        self._passes.begin_epoch(self.epoch)
        self._passes.go_on(again=False)

    # -- saved ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The place as plain data: under 1 KB, but for what an iterable dataset saves itself."""
        trained = self._setting.trained
        return {
            "format": _FORMAT,
            "policy": self._config.policy,
            "seed": self._config.sample_seed,
            "length": self._length,
            "epoch": trained.epoch,
            "cursor": trained.cursor,
            "checksum": trained.checksum,
            "begun": self._passes.begun,
            **self._course.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where `state` was saved: a running pass goes on from there at once.

        Under `user`, call `load_random_state` first, and set the generators to the boundary's.

        Raises:
            FormatError: if the state is of another policy, seed or dataset.
        """
        self._check_state(state)
        self._course.load(state)
        self._setting.trained.place(state["epoch"], state["cursor"], state["checksum"])
        self._passes.go_on(again=bool(state["begun"]))

    def random_state(self) -> RandomState | None:
        """The generators as the epoch began, to be saved beside the state; None but for `user`."""
        return self._course.random_state()

    def load_random_state(self, state: RandomState | None) -> None:
        """Put back what `random_state` gave."""
        self._course.load_random_state(state)

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if state.get("format") != _FORMAT:
            raise FormatError(f"order state of format {state.get('format')}, expected {_FORMAT}")
        now = self.state_dict()
        for name in ("policy", "seed", "length"):
            if state[name] != now[name]:
                raise FormatError(
                    f"the order was saved with {name} {state[name]!r}, it is now {now[name]!r}; "
                    "resume with the same or start a new run"
                )

    # -- in place ---------------------------------------------------------------------------------

    def __enter__(self) -> OrderedLoader:
        if self._entered:
            raise ConfigError("an ordered loader is entered once; make another for the next block")
        self._entered = True
        self._place.put(self._course.stand_ins())
        return self

    def __exit__(self, *_: object) -> None:
        self._course.leave()
        self._place.take_back()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._place.loader)

    def _start(self) -> OrderedPass:
        return self._passes.start()


def _course(setting: Setting) -> Course:
    if isinstance(setting.loader.dataset, IterableDataset):
        return StreamCourse(setting)
    return SeededCourse(setting) if setting.config.seeded else RecordedCourse(setting)


def _check_dataset(setting: Setting) -> None:
    dataset = setting.loader.dataset
    if isinstance(dataset, IterDataPipe | MapDataPipe):
        raise ConfigError("a data pipe seeds itself; wrap its data in a Dataset or IterableDataset")
    own = [] if isinstance(dataset, IterableDataset) else generators_of(dataset, depth=2)
    if own:
        setting.inexact(
            f"the dataset {type(dataset).__name__} keeps a {type(own[0]).__name__} of its own; let "
            "it draw from the global generators, or derive its numbers from the index"
        )


def _length(loader: Any) -> int | None:
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return None
    try:
        return len(dataset)
    except Exception:  # noqa: BLE001 - the user's own code; not every order needs a length
        return None  # a batch sampler may know what the dataset does not
