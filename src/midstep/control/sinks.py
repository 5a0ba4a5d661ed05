"""Receivers of a run: sinks get every step, subscribers get a call when something changed."""

from __future__ import annotations

from collections.abc import Callable

from midstep.control.control_state import ControlState, without
from midstep.core.protocols import Sink


class Sinks:
    """The sinks of a run, and the callbacks on a change and on the begin of a step.

    Each list is a tuple that is replaced as a whole, so that it is read without the lock.
    """

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
            self._state.sinks = without(self._state.sinks, sink)
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
                state.subscribers = without(state.subscribers, callback)

        return unsubscribe

    def on_step_begin(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the training thread when a step begins.

        It is called while the run is observed, and once more when the last viewer or request has
        gone, so that the listener can remove what it installed. After that it is not called and
        costs nothing. Returns a function that ends the subscription.
        """
        state = self._state
        with state.lock:
            state.step_listeners = (*state.step_listeners, listener)

        def remove() -> None:
            with state.lock:
                state.step_listeners = without(state.step_listeners, listener)

        return remove
