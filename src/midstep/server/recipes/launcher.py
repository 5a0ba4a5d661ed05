"""Starting recipes: each run is a process of its own that outlives this server."""

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
from midstep.core.ids import new_run_id
from midstep.loops.recipes import find_recipe
from midstep.session.run_directory import new_directory

CHILD = "midstep.live.recipe_process"
"""Of a room above this one: it is run, not imported."""
CONSOLE = "console.log"
START_S = 120.0
"""A busy machine may take long to load torch and the data; beyond this something is wrong."""
REMEMBERED = 1_000
TAIL_BYTES = 2_000


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """A run that is wanted."""

    id: str
    """Drawn by whoever asks; asked for again, the same run is answered."""
    recipe: str
    """Which one."""
    settings: Mapping[str, Any]
    """Its settings; defaults for those left out."""
    name: str | None = None
    """What to call it; the recipe's name when left out."""
    paused: bool = False
    """Stand before the first step until resumed."""


@dataclass(frozen=True, kw_only=True)
class LaunchedRun:
    """A run that has begun."""

    run_id: str
    """Its id."""
    run_dir: Path
    """Its directory."""


class Launcher:
    """Starts recipes in `save_dir` and lets them go: a child has its own session and lease.

    Args:
        save_dir: where the runs' directories are made.
        start_s: how long a child may take to begin.
    """

    def __init__(self, save_dir: Path, *, start_s: float = START_S) -> None:
        self.save_dir, self._start_s = save_dir, start_s
        self._children: list[subprocess.Popen[bytes]] = []
        self._answered: OrderedDict[str, LaunchedRun] = OrderedDict()
        self._starting, self._counting = threading.Lock(), threading.Lock()

    def start(self, wanted: LaunchRequest) -> LaunchedRun:
        """Begin the run and wait until it stands; a repeated id is answered, not repeated.

        Raises:
            ConfigError: the recipe does not take these settings.
            MidstepError: the process ended before its run began.
        """
        recipe = find_recipe(wanted.recipe)
        recipe.check_settings(wanted.settings)
        with self._starting:  # one at a time, so that a repeated id waits for the first
            self.reap()
            known = self._answered.get(wanted.id)
            if known is None:
                known = self._answered[wanted.id] = self._begin(wanted)
                while len(self._answered) > REMEMBERED:
                    self._answered.popitem(last=False)
        return known

    def close(self) -> None:
        """Let the children go; they train on by themselves."""
        self.reap()
        with self._counting:
            for child in self._children:
                child.returncode = 0  # nobody waits for it here any more
            self._children.clear()

    def reap(self) -> None:
        """Take note of children that have ended, so that none stays behind as a zombie."""
        with self._counting:
            self._children = [child for child in self._children if child.poll() is None]

    def _begin(self, wanted: LaunchRequest) -> LaunchedRun:
        name = wanted.name or wanted.recipe
        run_dir = new_directory(self.save_dir, name, None, datetime.now(UTC)).absolute()
        started = LaunchedRun(run_id=new_run_id(), run_dir=run_dir)
        heard, told = os.pipe()
        request = {
            "recipe": wanted.recipe,
            "settings": dict(wanted.settings),
            "name": name,
            "run_id": started.run_id,
            "run_dir": str(run_dir),
            "paused": wanted.paused,
            "answer_to": told,
        }
        try:
            self._spawn(run_dir, request, told)
            answer = _hear(heard, self._start_s)
        finally:
            os.close(heard)
        if answer.get("started") is True:
            return started
        raise _not_begun(run_dir, answer)

    def _spawn(self, run_dir: Path, request: Mapping[str, Any], told: int) -> None:
        """Its own session, so that what ends this server does not end it; our pipe's end goes."""
        try:
            with (run_dir / CONSOLE).open("ab") as console:
                child = subprocess.Popen(  # noqa: S603 - our own module; settings go by stdin
                    [sys.executable, "-m", CHILD],
                    stdin=subprocess.PIPE,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(told,),
                )
        finally:
            os.close(told)
        with self._counting:
            self._children.append(child)
        # Waits for its end, so that it does not stay behind as a zombie when nobody starts another.
        threading.Thread(target=child.wait, name="midstep-reap", daemon=True).start()
        assert child.stdin is not None  # noqa: S101 - asked for above
        with suppress(BrokenPipeError), child.stdin:  # it died at once; the answer's end says so
            child.stdin.write(strict_json.dumps(dict(request)).encode())


def _hear(descriptor: int, most_s: float) -> dict[str, Any]:
    """The child's one line; empty when it ended, or took too long."""
    deadline, line = time.monotonic() + most_s, b""
    while not line.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            return {"late": True}
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            return {}
        line += chunk
    said = json.loads(line)
    return said if isinstance(said, dict) else {}


def _not_begun(run_dir: Path, answer: Mapping[str, Any]) -> MidstepError:
    """Why there is no run; a directory that holds nothing but the console goes away."""
    if answer.get("late") is True:
        return MidstepError(
            f"the run in {run_dir.name} has not begun yet; it appears in the list when it does"
        )
    console = run_dir / CONSOLE
    said = _tail(console)
    with suppress(OSError):  # it holds more than that: it is left to be looked at
        if {entry.name for entry in run_dir.iterdir()} == {CONSOLE}:
            console.unlink()
            run_dir.rmdir()
    if "refused" in answer:
        return ConfigError(str(answer["refused"]))
    return MidstepError(f"the process ended before its run began. It said: {said or 'nothing'}")


def _tail(path: Path) -> str:
    try:
        raw = path.read_bytes()[-TAIL_BYTES:]
    except OSError:
        return ""
    return raw.decode(errors="replace").strip()
