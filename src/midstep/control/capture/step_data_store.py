"""The step data: what hooks and loops push in a step, and the newest of each key for readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import Origin, StepData, clone_or_reason, resolve
from midstep.control.capture.host_copy import Ready, TensorCopies
from midstep.control.capture.subscriptions import EVERYTHING, StepPlan
from midstep.control.panels import Panel
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

RESERVED_KEYS = frozenset({"keys", "force_detail"})
"""Keys that are routes of the server next to the step data."""
MAX_OFFERED = 256


class StepDataStore:
    """The data of the step in progress, and what is published of it and of earlier steps.

    Written by the training thread. Other threads read `published` and `offered`, which are
    replaced as a whole.

    Args:
        state: of the controller.
        new_etag: returns a new name for a copy of a step, given the number of finished steps.
    """

    def __init__(self, state: ControlState, new_etag: Callable[[int], str]) -> None:
        self._state, self._new_etag = state, new_etag
        self.pushed: dict[str, Any] = {}
        """The data of this step, by key."""
        self.panels: dict[str, Panel] = {}
        """Panels of this step's data, by key."""
        self._uncopied: set[str] = set()
        """Keys whose data is still the object that the caller pushed, not a copy."""
        self._unpublished: set[str] = set()
        """Keys that were pushed since this step's data was published."""
        self._ready: dict[str, Ready] = {}
        """What readers of this step's data must wait for."""
        self.published = StepData(step=0, values={})
        """The newest step data of each key, for readers."""
        self.offered: dict[str, Panel | None] = {}
        """Keys that hooks and loops push, whether they are captured or not."""

    def push(self, key: str, data: Any, panel: Panel | None, plan: StepPlan) -> None:
        """Store data of this step; it is copied now if the plan takes its key."""
        if not isinstance(key, str) or not key or key in RESERVED_KEYS:
            raise ConfigError(
                f"a key of step data is text and not {' or '.join(sorted(RESERVED_KEYS))}; "
                f"got {key!r}. Choose another name."
            )
        if isinstance(panel, Panel):
            self.panels[key] = panel
        elif panel is None:
            self.panels.pop(key, None)
        else:
            raise ConfigError(f"panel must be a midstep.Panel, got {type(panel).__name__}")
        if self.offered.get(key, self) is not panel:  # a new key, or another panel
            self.offer(key, panel)
        self.pushed[key] = data
        self._unpublished.add(key)
        self._uncopied.add(key)
        if plan.takes_key(key):
            self._copy(key)

    def add(self, key: str, data: Any, panel: Panel | None) -> None:
        """Add data to the step after which the run is paused, and publish it."""
        step = self._state.finished_steps
        # The count tells viewers of a paused run that a key has new data.
        before = self.published.additions if self.published.step == step else 0
        self.push(key, data, panel, EVERYTHING)
        self.publish(EVERYTHING, additions=before + 1)

    def _copy(self, key: str) -> None:
        copies = TensorCopies()
        self.pushed[key] = clone_or_reason(resolve(self.pushed[key]), copies)
        self._uncopied.discard(key)
        self._ready.pop(key, None)
        if (ready := copies.take()) is not None:
            self._ready[key] = ready

    def publish(self, plan: StepPlan, *, additions: int = 0, is_complete: bool = False) -> None:
        """Publish the data that the plan takes; entries that are not copies yet are copied now.

        Args:
            plan: which keys to publish.
            additions: how many times a command has added data to this step.
            is_complete: whether all hooks ran in this step. Then keys that only earlier steps
                have are dropped: their hooks are gone.
        """
        # Without data of its own a step leaves the last published data in place.
        keys = [key for key in self.pushed if key in self._unpublished and plan.takes_key(key)]
        if not keys:
            return
        for key in keys:
            if key in self._uncopied:
                self._copy(key)
        self._unpublished.difference_update(keys)
        step, before = self._state.finished_steps, self.published
        etag = self._new_etag(step)
        kept = [
            key
            for key in before.values
            if key not in keys and (not is_complete or before.step_of(key) == step)
        ]
        self.published = StepData(
            step=step,
            values={key: before.values[key] for key in kept} | _only(self.pushed, keys),
            panels=_only(before.panels, kept) | _only(self.panels, keys),
            additions=additions,
            etag=etag,
            origins={key: Origin(step=before.step_of(key)) for key in kept}
            | _only(before.origins, kept)
            | {key: Origin(step=step, etag=etag, ready=self._ready.get(key)) for key in keys},
        )

    def clear(self) -> None:
        """Drop the data of the last step; what is published stays."""
        if self.pushed:
            # Replaced, not cleared: `get` reads it from any thread.
            self.pushed, self.panels, self._ready = {}, {}, {}
            self._uncopied, self._unpublished = set(), set()

    def forget_after(self, step: int) -> None:
        """Drop everything if something published is of a step after `step`."""
        if any(self.published.step_of(key) > step for key in self.published.values):
            self.published = StepData(step=0, values={})
        self.clear()

    def offer(self, key: str, panel: Panel | None = None) -> None:
        """Name a key that can be subscribed; pushing it offers it too."""
        if key in self.offered or len(self.offered) < MAX_OFFERED:
            self.offered = {**self.offered, key: panel}

    def withdraw(self, key: str) -> None:
        """Stop offering a key; an unknown key is not an error."""
        self.offered = {name: panel for name, panel in self.offered.items() if name != key}

    def get(self, key: str) -> Any:
        """What was pushed under `key` in this step.

        Raises:
            ConfigError: nothing was pushed under `key`; the message lists the keys.
        """
        try:
            return self.pushed[key]
        except KeyError:
            keys = ", ".join(self.pushed) or "nothing"
            raise ConfigError(f"no step data {key!r} in this step; there is {keys}") from None


def _only(entries: Mapping[str, Any], keys: list[str]) -> dict[str, Any]:
    return {key: entries[key] for key in keys if key in entries}
