"""The state of a run in the terminal: one line, redrawn; without a terminal a line every 5 s."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.live import Live
from rich.text import Text

from midstep.cli.output.text_format import format_duration, format_number

if TYPE_CHECKING:
    from midstep.cli.output.screen import Screen

REDRAW_S = 0.25
PLAIN_LINE_S = 5.0
READ_S = 1.0
"""How often the state is read without a terminal: often enough to measure the rate."""
ENDED = ("stopped", "finished", "failed")
KEYS = "space pause/resume · s step · q stop"


def format_state(state: Mapping[str, Any], *, full: bool = False) -> str:
    """The state of a run in one line; with `full` also epoch and learning rate.

    >>> format_state({"state": "paused", "parked": True, "step": 1007, "loss": 0.25})
    'PAUSED at step 1,007 · loss 0.25'
    >>> format_state({"state": "running", "step": 3, "epoch": 1, "best_val_loss": 0.5}, full=True)
    'running · step 3 · best 0.5 · epoch 2'
    """
    is_paused = _is_paused(state)
    parts = [_format_name(state), _format_step(state)]
    if is_paused:
        parts = [f"PAUSED at {_format_step(state)}"]
    if isinstance(state.get("loss"), int | float):
        parts.append(f"loss {format_number(float(state['loss']))}")
    if isinstance(state.get("best_val_loss"), int | float):
        parts.append(f"best {format_number(float(state['best_val_loss']))}")
    if full:
        parts += _format_progress(state)
    if state.get("steps_per_s") and state["state"] not in ENDED and (full or not is_paused):
        parts += [f"{_format_speed(state)} before the pause"] if is_paused else _format_rates(state)
    return " · ".join(parts) + _format_reason(state)


def _format_name(state: Mapping[str, Any]) -> str:
    """The state, or the phase that the loop has named, with its time.

    >>> _format_name({"state": "running", "phase": "eval", "phase_s": 75.0})
    'eval for 0:01:15'
    """
    if state["state"] != "running" or state.get("phase_s") is None:
        return str(state["state"])
    return f"{state['phase']} for {format_duration(state['phase_s'])}"


def _is_paused(state: Mapping[str, Any]) -> bool:
    return bool(state.get("parked")) and state["state"] == "paused"


def _format_progress(state: Mapping[str, Any]) -> list[str]:
    words = []
    if state.get("epoch") is not None:
        total = state.get("total_epochs")
        # At the end of the last epoch the count of finished ones is the total.
        epoch = min(state["epoch"] + 1, total or math.inf)
        words.append(f"epoch {epoch:,}" + (f" of {total:,}" if total else ""))
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


def _format_reason(state: Mapping[str, Any]) -> str:
    """Why the run is paused, if no user paused it, and why it takes no checkpoints."""
    words = [_format_hit(state["breakpoint"])] if state.get("breakpoint") else []
    words += [state[name] for name in ("reason", "checkpoints_off") if state.get(name)]
    return f": {'; '.join(words)}" if words else ""


def _format_hit(hit: Mapping[str, Any]) -> str:
    value = "" if hit.get("value") is None else f" (was {format_number(hit['value'])})"
    where = "" if hit.get("layer") is None else f" in {hit['layer']}"
    return f"{hit['condition']}{value}{where}"


class Status:
    """A context manager that shows the state of a run from its own thread.

    Args:
        read: returns the state, like `controller.get_state`.
        subscribe: registers a callback for changes, like `controller.sinks.subscribe`.
        screen: the terminal.
        keys: whether keys work; then the line names them.
        full: whether to show epoch and learning rate, too.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        subscribe: Callable[[Callable[[], None]], Callable[[], None]],
        screen: Screen,
        *,
        keys: bool,
        full: bool = False,
    ) -> None:
        self._read, self._screen, self._keys, self._full = read, screen, keys, full
        self._changed, self._ended = threading.Event(), threading.Event()
        self._unsubscribe = subscribe(self._changed.set)
        self._note = ""
        self._paused_at: int | None = None
        self._live: Live | None = None
        self._thread = threading.Thread(target=self._show, name="midstep-status", daemon=True)

    def note(self, text: str) -> None:
        """Show why a key had no effect, until the run pauses again. Call it from any thread."""
        self._note = text
        self._changed.set()

    def __enter__(self) -> Self:
        if self._screen.is_terminal:
            self._live = Live(console=self._screen, auto_refresh=False, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        self._ended.set()
        self._changed.set()
        self._thread.join()
        if self._live is not None:
            self._live.stop()

    def _show(self) -> None:
        every_s = READ_S if self._live is None else REDRAW_S
        line_due = time.monotonic() + PLAIN_LINE_S
        while not self._ended.is_set():
            self._changed.wait(every_s)
            self._changed.clear()  # before the read, so that a later change is not lost
            state = self._read()
            self._announce(state)
            if self._live is not None:
                self._redraw(self._live, state)
                self._ended.wait(REDRAW_S)  # a fast loop changes more often: four redraws a second
            elif time.monotonic() >= line_due:
                line_due = time.monotonic() + PLAIN_LINE_S
                if not state["parked"]:
                    self._screen.print_line(format_state(state))

    def _announce(self, state: Mapping[str, Any]) -> None:
        """Print a line each time the run pauses at another step; a terminal shows it anyway."""
        paused_at = state["step"] if _is_paused(state) else None
        if paused_at is not None and paused_at != self._paused_at:
            self._note = ""
            if self._live is None:
                self._screen.print_line(format_state(state))
        self._paused_at = paused_at

    def _redraw(self, live: Live, state: Mapping[str, Any]) -> None:
        line = self._note or format_state(state, full=self._full)
        keys = f"   {KEYS}" if self._keys else ""
        text = Text(line + keys, no_wrap=True, overflow="ellipsis", style="dim" if keys else "")
        text.stylize("not dim bold yellow" if _is_paused(state) else "not dim", 0, len(line))
        try:
            live.update(text, refresh=True)
        except OSError:  # the terminal was closed; the training continues without it
            self._screen.quiet = True
