"""One line in the terminal when a run without a page pauses for the first time.

Without it such a pause looks like a script that hangs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.client.client import DEFAULT_SAVE_DIR
from midstep.core.standard_streams import print_notice
from midstep.live.mode import current_mode
from midstep.live.notebook.run_display import relative

if TYPE_CHECKING:
    from midstep.live.run_socket import RunSocketServer
    from midstep.session import Run


def announce_first_pause(run: Run, server: RunSocketServer | None) -> Callable[[], None]:
    """Print one notice at the first pause to which nobody is connected.

    Args:
        run: has no page.
        server: of its socket; None if it has no socket of its own.

    Returns a function that ends the waiting for that pause.
    """

    def announce() -> None:
        park = run.controller.status.park
        if park is not None and park.cause == "hold":
            return  # no command ends it: it waits for a disk that is full
        if server is None and run.lease.socket is not None:
            return  # another server of the run answers there
        if server is None or not server.is_connected:
            stop_listening()
            print_notice(_describe_pause(run, is_reachable=server is not None))

    stop_listening = run.controller.sinks.on_park(announce)
    return stop_listening


def _describe_pause(run: Run, *, is_reachable: bool) -> str:
    state = run.controller.get_state()
    step = state["step"]
    where = f"paused after step {step:,}" if step else "paused before the first step"
    reason = _reason_of(state)
    where += f": {reason}" if reason else ""
    if not is_reachable:
        mode = current_mode()
        why = "" if mode == "live" else f" with MIDSTEP_MODE={mode}"
        return f"{where}; no other terminal can reach this run{why}; Ctrl-C ends it"
    return f"{where}; continue from another terminal with: {_resume_command(run.dir)}"


def _reason_of(state: dict[str, Any]) -> str | None:
    """Why a run is paused, in words; None if its user requested it."""
    hit = state.get("breakpoint")
    if hit is None:
        reason: str | None = state["reason"]
        return reason
    value = hit["value"]
    was = f" (was {value:.5g})" if isinstance(value, int | float) else ""
    layer = f" in {hit['layer']}" if hit["layer"] else ""
    return f"{hit['condition']}{was}{layer}"


def _resume_command(directory: Path) -> str:
    """The command that resumes the run, for a terminal in the present folder."""
    words = ["midstep", "ctl", "resume"]
    folder = relative(directory.parent)
    if folder != Path(DEFAULT_SAVE_DIR):  # where `midstep ctl` looks without --save-dir
        words += ["--save-dir", str(folder)]
    # By its directory: another run may have the same name.
    if any(lease.parent != directory for lease in directory.parent.glob("*/lease.json")):
        words += ["--run", directory.name]
    return shlex.join(words)
