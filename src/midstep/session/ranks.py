"""The process group that a training belongs to, and how its ranks meet without a collective.

Ranks exchange short texts through the group's store (the `TCPStore` of torchrun), always with a
time limit. No collective is called: one that not every rank calls would hang the training.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

LONGEST_WAIT_S = 180.0
"""How long a rank waits for the others at a resume, at most half of the group's timeout."""
SHARE_OF_TIMEOUT = 0.8
"""A rank that is parked for this share of the group's timeout continues by itself."""
_POLL_S = 0.02
_meetings = itertools.count()


class RankGroup:
    """The default process group of torch.distributed, seen from one of its ranks.

    Args:
        rank: of this process.
        size: the number of ranks.
        timeout_s: after which a collective of the group fails; None if it is not known.
        store: the key-value store that all ranks share.
    """

    def __init__(self, rank: int, size: int, timeout_s: float | None, store: Any) -> None:
        self.rank, self.size, self.timeout_s, self._store = rank, size, timeout_s, store

    @classmethod
    def find(cls) -> RankGroup | None:
        """The group of this process; None without one, or if this is its only rank."""
        # Looked up, not imported: a process that never imported it has no group.
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return None
        if not distributed.is_initialized() or distributed.get_world_size() < 2:
            return None
        return cls(
            distributed.get_rank(),
            distributed.get_world_size(),
            _timeout_s(distributed.distributed_c10d._get_default_group()),
            distributed.distributed_c10d._get_default_store(),
        )

    @property
    def words(self) -> str:
        """This rank in words: "rank 0 of 2"."""
        return f"rank {self.rank} of {self.size}"

    @property
    def wait_s(self) -> float:
        """How long to wait for the other ranks."""
        return min(LONGEST_WAIT_S, (self.timeout_s or 2 * LONGEST_WAIT_S) / 2)

    def publish(self, key: str, value: Any) -> None:
        """Show a JSON value to the other ranks."""
        self._store.set(self._key(key, self.rank), json.dumps(value))

    def read_if_all(self, key: str) -> list[Any] | None:
        """What all ranks published under `key`, by rank; None until all have. Does not wait."""
        keys = [self._key(key, rank) for rank in range(self.size)]
        if not self._store.check(keys):
            return None
        return [json.loads(self._store.get(each)) for each in keys]

    def read_all(self, key: str, what: str, *, clock: Callable[[], float] = time.monotonic) -> Any:
        """What all ranks published under `key`, by rank; waits for them.

        Args:
            key: the same on every rank.
            what: what the ranks should have done, for the error.
            clock: monotonic seconds.

        Raises:
            ConfigError: not all ranks published in time; the message names those that did not.
        """
        deadline = clock() + self.wait_s
        # Polled, because Ctrl-C does not end a wait of the store.
        while (values := self.read_if_all(key)) is None:
            if clock() > deadline:
                absent = [
                    rank
                    for rank in range(self.size)
                    if not self._store.check([self._key(key, rank)])
                ]
                raise ConfigError(
                    f"{_list_ranks(absent)} of {self.size} did not {what} within "
                    f"{self.wait_s:.0f} s; this is rank {self.rank}. Give every rank the same "
                    'midstep settings, or use resume="never"'
                )
            time.sleep(_POLL_S)
        return values

    @staticmethod
    def _key(key: str, rank: int) -> str:
        return f"midstep/{key}/{rank}"


class RankMeeting:
    """What the ranks of a group agree on for one run.

    The runs of a process are numbered in the order in which they begin, which must be the same on
    every rank.

    Args:
        group: of this process.
    """

    def __init__(self, group: RankGroup) -> None:
        self.group = group
        self._number = next(_meetings)
        self._run_ids: list[str] | None = None

    @classmethod
    def open(cls) -> RankMeeting | None:
        """The meeting of the next run of this process; None without a process group."""
        group = RankGroup.find()
        return None if group is None else cls(group)

    def publish(self, topic: str, value: Any) -> None:
        """Show a JSON value to the other ranks of this run."""
        self.group.publish(f"{self._number}/{topic}", value)

    def read_all(self, topic: str, what: str) -> list[Any]:
        """What all ranks published; waits for them. See `RankGroup.read_all`."""
        return list(self.group.read_all(f"{self._number}/{topic}", what))

    def wait_for_runs(self, run_id: str) -> None:
        """Exchange the ids of the runs; every rank is here, since all of them resume.

        Raises:
            ConfigError: a rank did not open its run in time, for example because it was refused.
        """
        self.publish("run", run_id)
        self._run_ids = self.read_all("run", "open its run")

    def describe(self, run_id: str) -> dict[str, Any]:
        """The agreement for a checkpoint: rank, number of ranks, and the ids of all their runs.

        The ids are None as long as some ranks have no run. This does not wait for them.
        """
        if self._run_ids is None:
            self.publish("run", run_id)
            self._run_ids = self.group.read_if_all(f"{self._number}/run")
        return {"rank": self.group.rank, "size": self.group.size, "runs": self._run_ids}


def why_no_moves() -> str | None:
    """Why this process must not change its training alone, in words; None if it may."""
    group = RankGroup.find()
    if group is None:
        return None
    return (
        f"This is {group.words} in a process group. A change on one rank only would make the ranks "
        "train different models, and a step on one rank only would wait for the others for ever; "
        "stop all ranks and start them again."
    )


def why_no_state(model: nn.Module) -> str | None:
    """Why one rank alone must not read the state of this model, in words; None if it may.

    Reading it gathers the parts of all ranks, and ranks take checkpoints at times of their own.
    """
    # Looked up, not imported: a process that never imported them has no such model.
    fsdp = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", ())
    tensors = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", ())
    if any(isinstance(each, fsdp) for each in model.modules()):
        kind = "FullyShardedDataParallel"
    elif any(isinstance(each, tensors) for each in model.parameters()):
        kind = "DTensor"
    else:
        return None
    return f"the model is sharded over ranks ({kind}), and one rank alone cannot read its state"


def check_can_resume(resume: str, model: nn.Module) -> None:
    """Refuse a resume on which the ranks could not agree.

    Raises:
        ConfigError: the model is sharded, or this is one of several processes without a group.
    """
    if resume == "never":
        return
    reason = why_no_state(model)
    size = os.environ.get("WORLD_SIZE", "1")
    if reason is None and size.isdecimal() and int(size) > 1 and not _has_group():
        reason = (
            f"WORLD_SIZE is {size}, as torchrun sets it, and there is no process group yet, so the "
            "ranks cannot agree on a checkpoint; call torch.distributed.init_process_group first"
        )
    if reason is not None:
        raise ConfigError(f'resume={resume!r} is not possible: {reason}. Or use resume="never"')


def _has_group() -> bool:
    distributed = sys.modules.get("torch.distributed")
    is_usable = distributed is not None and distributed.is_available()
    return is_usable and bool(distributed.is_initialized())  # type: ignore[union-attr]


def park_limit() -> tuple[float, str] | None:
    """How many seconds this rank may be parked, and why, in words; None without a limit."""
    group = RankGroup.find()
    if group is None or group.timeout_s is None:
        return None
    limit_s = SHARE_OF_TIMEOUT * group.timeout_s
    end = datetime.now(UTC) + timedelta(seconds=group.timeout_s)
    return limit_s, (
        f"The other ranks wait for this one ({group.words}). The timeout of the process group ends "
        f"in {group.timeout_s:,.0f} s, at {end:%H:%M:%S} UTC; the run resumes by itself after "
        f"{limit_s:,.0f} s."
    )


def _timeout_s(process_group: Any) -> float | None:
    """The shortest timeout of the group's backends; None if none is known."""
    timeouts = []
    for device in process_group._device_types:
        options = getattr(process_group._get_backend(device), "options", None)
        if (timeout := getattr(options, "_timeout", None)) is not None:
            timeouts.append(timeout.total_seconds())
    return min(timeouts, default=None)


def _list_ranks(ranks: list[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks))}"
