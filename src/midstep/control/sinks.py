"""Who hears of a run: sinks get every step, subscribers get a call when something changed."""

from __future__ import annotations

from collections.abc import Callable

from midstep.control.control_state import ControlState
from midstep.core.protocols import Sink


class Sinks:
    """The receivers of a run's scalars and interventions, and the callbacks on a change."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def add(self, sink: Sink) -> None:
        """Send every step's scalars and every intervention to `sink`."""
        with self._state.lock:
            self._state.sinks = (*self._state.sinks, sink)
            self._state.refresh_flags()

    def remove(self, sink: Sink) -> None:
        """Send nothing more to `sink`."""
        with self._state.lock:
            self._state.sinks = tuple(held for held in self._state.sinks if held is not sink)
            self._state.refresh_flags()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the state, a command, a breakpoint or a watch changes.

        The callback is called from any thread and must return at once. Returns a function that
        ends the subscription.
        """
        state = self._state
        with state.lock:
            state.subscribers = (*state.subscribers, callback)

        def unsubscribe() -> None:
            with state.lock:
                state.subscribers = tuple(
                    held for held in state.subscribers if held is not callback
                )

        return unsubscribe
