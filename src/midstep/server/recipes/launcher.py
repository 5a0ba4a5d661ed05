"""Start recipes: each run is its own process, which continues when this server ends."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import ConfigError, MidstepError
from midstep.core.files.untrusted_files import open_plain, open_regular
from midstep.core.ids import new_run_id
from midstep.loops.recipes import find_recipe
from midstep.session.run_directory import new_directory

CHILD = "midstep.live.recipe_process"
"""The module that the process runs. It lies above `server`, so it is not imported here."""
CONSOLE = "console.log"
START_S = 120.0
"""Time for a process to start its run. A busy machine takes long to load torch and the data."""
REMEMBERED = 1_000
"""Requests whose ids are remembered."""
TAIL_BYTES = 2_000
"""Bytes of the console that an error message quotes."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """A run to start."""

    id: str
    """Chosen by the caller. A repeated id returns the run that the first request started."""
    recipe: str
    """Name of the recipe."""
    settings: Mapping[str, Any]
    """Its settings; those left out have their defaults."""
    name: str | None = None
    """Name of the run; the recipe's name when left out."""
    paused: bool = False
    """Pause before the first step."""


@dataclass(frozen=True, kw_only=True)
class LaunchedRun:
    """A run that was started."""

    run_id: str
    run_dir: Path


class Launcher:
    """Starts recipes as processes that do not depend on this one.

    Args:
        save_dir: the folder of the new run directories.
        start_s: time for a process to start its run.
    """

    def __init__(self, save_dir: Path, *, start_s: float = START_S) -> None:
        self.save_dir, self._start_s = save_dir, start_s
        self._children: list[subprocess.Popen[bytes]] = []
        self._launched: OrderedDict[str, LaunchedRun] = OrderedDict()
        self._start_lock, self._children_lock = threading.Lock(), threading.Lock()

    def start(self, request: LaunchRequest) -> LaunchedRun:
        """Start a run and wait until it exists. A repeated id starts nothing.

        Raises:
            ConfigError: the recipe does not accept these settings.
            MidstepError: the process ended before its run started.
        """
        recipe = find_recipe(request.recipe)
        recipe.check_settings(request.settings)
        with self._start_lock:  # one at a time, so that a repeated id waits for the first request
            self.reap()
            launched = self._launched.get(request.id)
            if launched is None:
                launched = self._launched[request.id] = self._launch(request)
                while len(self._launched) > REMEMBERED:
                    self._launched.popitem(last=False)
        return launched

    def close(self) -> None:
        """Forget the processes; they continue to train."""
        self.reap()
        with self._children_lock:
            for child in self._children:
                # Otherwise `Popen.__del__` warns that the process is still running.
                child.returncode = 0
            self._children.clear()

    def reap(self) -> None:
        """Forget processes that have ended."""
        with self._children_lock:
            self._children = [child for child in self._children if child.poll() is None]

    def _launch(self, request: LaunchRequest) -> LaunchedRun:
        name = request.name or request.recipe
        run_dir = new_directory(self.save_dir, name, None, datetime.now(UTC)).absolute()
        launched = LaunchedRun(run_id=new_run_id(), run_dir=run_dir)
        # The process writes one line into this pipe when its run exists or was refused. If it dies
        # first, the pipe closes, so nothing is waited for in vain.
        read_end, write_end = os.pipe()
        fields = {
            "recipe": request.recipe,
            "settings": dict(request.settings),
            "name": name,
            "run_id": launched.run_id,
            "run_dir": str(run_dir),
            "paused": request.paused,
            "answer_to": write_end,
        }
        try:
            self._spawn(run_dir, fields, write_end)
            answer = _read_answer(read_end, self._start_s)
        finally:
            os.close(read_end)
        if answer.get("started") is True:
            return launched
        raise _start_error(run_dir, answer)

    def _spawn(self, run_dir: Path, fields: Mapping[str, Any], write_end: int) -> None:
        """Start the process, hand it its request, and close our copy of the pipe's end."""
        try:
            # For this user alone: what a process prints may hold secrets.
            with open(run_dir / CONSOLE, "ab", opener=open_regular) as console:
                child = subprocess.Popen(  # noqa: S603 - our own module; settings go by stdin
                    # -P: `-m` puts the working directory first on the path of modules, and a
                    # `torch.py` that lies there would be executed.
                    [sys.executable, "-P", "-m", CHILD],
                    stdin=subprocess.PIPE,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C or a closed terminal ends only the server
                    pass_fds=(write_end,),
                )
        finally:
            os.close(write_end)
        with self._children_lock:
            self._children.append(child)
        # Waits for the end of the process, which would stay a zombie until the next start.
        threading.Thread(target=child.wait, name="midstep-reap", daemon=True).start()
        assert child.stdin is not None  # noqa: S101 - asked for above
        with suppress(BrokenPipeError), child.stdin:  # it died at once; `_read_answer` notices
            child.stdin.write(strict_json.dumps(dict(fields)).encode())


def _read_answer(descriptor: int, timeout_s: float) -> dict[str, Any]:
    """The one line of the process; empty when it ended without one, `late` after the timeout."""
    deadline, line = time.monotonic() + timeout_s, b""
    while not line.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            return {"late": True}
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            return {}
        line += chunk
    answer = json.loads(line)
    return answer if isinstance(answer, dict) else {}


def _start_error(run_dir: Path, answer: Mapping[str, Any]) -> MidstepError:
    """Why there is no run. A directory with nothing but the console in it is removed."""
    if answer.get("late") is True:
        return MidstepError(
            f"the run in {run_dir.name} has not started yet; the list shows it when it does"
        )
    console = run_dir / CONSOLE
    output = console_tail(console)
    with suppress(OSError):  # the directory then stays, for the user to look into
        if {entry.name for entry in run_dir.iterdir()} == {CONSOLE}:
            console.unlink()
            run_dir.rmdir()
    if "refused" in answer:
        return ConfigError(str(answer["refused"]))
    return MidstepError(
        f"the process ended before its run started. It printed: {output or 'nothing'}"
    )


def console_tail(path: Path) -> str:
    """The end of what a process printed; empty when it cannot be read."""
    with suppress(OSError), open_plain(path.parent, path.name) as file:
        file.seek(-min(TAIL_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return file.read(TAIL_BYTES).decode(errors="replace").strip()
    return ""
