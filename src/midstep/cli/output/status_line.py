"""The state of a run on the terminal: one line, redrawn; without a terminal a line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.live import Live
from rich.text import Text

from midstep.cli.output.text_format import format_duration, format_number

if TYPE_CHECKING:
    from midstep.cli.output.screen import Screen

__all__ = ["Status", "format_state"]

REDRAW_S = 0.25
PLAIN_LINE_S = 5.0
LOOK_S = 1.0
"""How often to look without a terminal: often enough to measure the rate."""
ENDED = ("stopped", "finished", "failed")
KEYS = "space pause/resume · s step · q stop"


def format_state(state: Mapping[str, Any], *, full: bool = False) -> str:
    """A controller's state in one line; `full`: with epoch and learning rate.

    >>> format_state({"state": "paused", "parked": True, "step": 1007, "loss": 0.25})
    'PAUSED at step 1,007 · loss 0.25'
    """
    stands = _stands(state)
    parts = (
        [f"PAUSED at {_format_step(state)}"] if stands else [state["state"], _format_step(state)]
    )
    if isinstance(state.get("loss"), int | float):
        parts.append(f"loss {format_number(float(state['loss']))}")
    if full:
        parts += _format_progress(state)
    if state.get("steps_per_s") and state["state"] not in ENDED and (full or not stands):
        parts += [f"{_format_speed(state)} before"] if stands else _format_rates(state)
    return " · ".join(parts) + _why(state)


def _stands(state: Mapping[str, Any]) -> bool:
    return bool(state.get("parked")) and state["state"] == "paused"


def _format_progress(state: Mapping[str, Any]) -> list[str]:
    words = []
    if state.get("epoch") is not None:
        total = state.get("total_epochs")
        words.append(f"epoch {state['epoch']:,}" + (f" of {total:,}" if total else ""))
    if isinstance(state.get("lr"), int | float):
        words.append(f"lr {format_number(float(state['lr']))}")
    return words


def _format_step(state: Mapping[str, Any]) -> str:
    total = state.get("total_steps")
    return f"step {state['step']:,}" + (f" of {total:,}" if total else "")


def _format_rates(state: Mapping[str, Any]) -> list[str]:
    words = [_format_speed(state)]
    if state.get("total_steps"):
        left = (state["total_steps"] - state["step"]) / state["steps_per_s"]
        words.append(f"{format_duration(left)} left")
    return words


def _format_speed(state: Mapping[str, Any]) -> str:
    speed = state["steps_per_s"]
    return f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s"


def _why(state: Mapping[str, Any]) -> str:
    """Why it stands, when nobody asked for it."""
    hit = state.get("breakpoint")
    if hit:
        value = "" if hit.get("value") is None else f" (was {format_number(hit['value'])})"
        where = "" if hit.get("layer") is None else f" in {hit['layer']}"
        return f": {hit['condition']}{value}{where}"
    return f": {state['reason']}" if state.get("reason") else ""


class Status:
    """Shows a run while it is entered, from a thread of its own.

    Args:
        read: gives the state, as `controller.get_state` does.
        subscribe: calls back whenever the state has changed, as `controller.sinks.subscribe` does.
        screen: where to show it.
        keys: whether the keys work, so that the line names them.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        subscribe: Callable[[Callable[[], None]], Callable[[], None]],
        screen: Screen,
        *,
        keys: bool,
    ) -> None:
        self._read, self._screen, self._keys = read, screen, keys
        self._changed, self._ended = threading.Event(), threading.Event()
        self._unsubscribe = subscribe(self._changed.set)
        self._note = ""
        self._stood: int | None = None
        self._live: Live | None = None
        self._thread = threading.Thread(target=self._show, name="midstep-status", daemon=True)

    def note(self, text: str) -> None:
        """Show why a key had no effect, until the state changes; any thread."""
        self._note = text
        self._changed.set()

    def __enter__(self) -> Self:
        if self._screen.is_terminal:
            self._live = Live(console=self._screen, auto_refresh=False, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unsubscribe()
        self._ended.set()
        self._changed.set()
        self._thread.join()
        if self._live is not None:
            self._live.stop()

    def _show(self) -> None:
        every_s = LOOK_S if self._live is None else REDRAW_S
        line_due = time.monotonic() + PLAIN_LINE_S
        while not self._ended.is_set():
            self._changed.wait(every_s)
            self._changed.clear()
            state = self._read()
            self._announce(state)
            if self._live is not None:
                self._redraw(self._live, state)
                self._ended.wait(REDRAW_S)  # many changes, four pictures a second
            elif time.monotonic() >= line_due:
                line_due = time.monotonic() + PLAIN_LINE_S
                if not state["parked"]:
                    self._screen.print_line(format_state(state))

    def _announce(self, state: Mapping[str, Any]) -> None:
        """Each time the run has come to stand at another step; on a terminal the line shows it."""
        stands = state["step"] if _stands(state) else None
        if stands is not None and stands != self._stood:
            self._note = ""
            if self._live is None:
                self._screen.print_line(format_state(state))
        self._stood = stands

    def _redraw(self, live: Live, state: Mapping[str, Any]) -> None:
        words = self._note or format_state(state)
        keys = f"   {KEYS}" if self._keys else ""
        text = Text(words + keys, no_wrap=True, overflow="ellipsis", style="dim" if keys else "")
        text.stylize("not dim bold yellow" if _stands(state) else "not dim", 0, len(words))
        try:
            live.update(text, refresh=True)
        except OSError:  # the terminal was closed; training goes on without it
            self._screen.quiet = True
