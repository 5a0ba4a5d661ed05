"""Start recipes and scripts: each run is its own process, which continues without this server."""

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
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from midstep.core import strict_json
from midstep.core.errors import ConfigError, MidstepError
from midstep.core.files.masked_text import mask_page_tokens
from midstep.core.files.storage import storage_errors
from midstep.core.files.untrusted_files import open_for_writing, open_plain
from midstep.core.ids import new_run_id
from midstep.facts.format.console_parts import START
from midstep.loops.recipes import find_recipe
from midstep.server.recipes.allowed_scripts import AllowedScript
from midstep.session.run_directory import new_directory

RECIPE_CHILD = "midstep.live.recipe_process"
SCRIPT_CHILD = "midstep.live.script.program.launched_script"
"""The modules that a process runs. They lie above `server`, so they are not imported here."""
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


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """What a process is started with."""

    module: str
    """The module that it runs."""
    name: str
    """Name of the run."""
    fields: Mapping[str, Any]
    """Its request, without the place of the run."""
    cwd: Path | None = None
    """Its working directory; that of this process if None."""


class Launcher:
    """Starts recipes and allowed scripts as processes that do not depend on this one.

    Args:
        save_dir: the folder of the new run directories.
        start_s: time for a process to start its run.
    """

    def __init__(self, save_dir: Path, *, start_s: float = START_S) -> None:
        self.save_dir, self._start_s = save_dir, start_s
        self._children: list[subprocess.Popen[bytes]] = []
        self._launched: OrderedDict[str, Future[LaunchedRun]] = OrderedDict()
        self._lock, self._children_lock = threading.Lock(), threading.Lock()

    def start(self, request: LaunchRequest) -> LaunchedRun:
        """Start a recipe and wait until its run exists. A repeated id starts nothing.

        Raises:
            ConfigError: the recipe does not accept these settings.
            MidstepError: the process ended before its run started.
        """
        recipe = find_recipe(request.recipe)
        recipe.check_settings(request.settings)
        given = {"recipe": request.recipe, "settings": dict(request.settings)}
        new = NewRun(
            module=RECIPE_CHILD,
            name=request.name or request.recipe,
            fields={**given, "name": request.name or request.recipe, "paused": request.paused},
        )
        return self._launch_once(request.id, new)

    def start_script(
        self, script: AllowedScript, request_id: str, *, name: str | None, paused: bool
    ) -> LaunchedRun:
        """Start a script as `midstep run` does, and wait until it has a run: at its first step.

        Args:
            script: which one.
            request_id: chosen by the caller. A repeated one starts nothing.
            name: of the run; that of the script if None.
            paused: pause before the first step.

        Raises:
            MidstepError: the process ended before its run started.
        """
        fields = {
            "target": script.target,
            "arguments": list(script.arguments),
            "is_module": script.is_module,
            "run_name": name,
            "save_dir": str(self.save_dir.absolute()),
            "starts_paused": paused,
        }
        new = NewRun(module=SCRIPT_CHILD, name=name or script.name, fields=fields, cwd=script.cwd)
        return self._launch_once(request_id, new)

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

    def _launch_once(self, request_id: str, new: NewRun) -> LaunchedRun:
        """Launch, unless a request with this id did or does; then wait for the run of that one."""
        self.reap()
        with self._lock:
            known = self._launched.get(request_id)
            launched = known or self._launched.setdefault(request_id, Future())
            while len(self._launched) > REMEMBERED:
                self._launched.popitem(last=False)
        if known is None:
            try:
                launched.set_result(self._launch(new))
            except BaseException as error:
                with self._lock:  # a request that failed may be repeated
                    self._launched.pop(request_id, None)
                launched.set_exception(error)
                raise
        return launched.result()

    def _launch(self, new: NewRun) -> LaunchedRun:
        run_dir = new_directory(self.save_dir, new.name, None, datetime.now(UTC)).absolute()
        run_id = new_run_id()
        # The process writes one line into this pipe when its run exists or was refused. If it dies
        # first, the pipe closes, so nothing is waited for in vain.
        read_end, write_end = os.pipe()
        location = {"run_id": run_id, "run_dir": str(run_dir), "answer_to": write_end}
        try:
            self._spawn(run_dir, new, {**new.fields, **location}, write_end)
            answer = _read_answer(read_end, self._start_s)
        finally:
            os.close(read_end)
        if answer.get("started") is not True:
            raise _start_error(run_dir, answer)
        if "run_id" in answer:  # the script opened a run of its own, in a directory of its own
            return LaunchedRun(run_id=str(answer["run_id"]), run_dir=Path(str(answer["run_dir"])))
        return LaunchedRun(run_id=run_id, run_dir=run_dir)

    def _spawn(self, run_dir: Path, new: NewRun, fields: Mapping[str, Any], write_end: int) -> None:
        """Start the process, hand it its request, and close our copy of the pipe's end."""
        try:
            # Read if the start fails. Once the run is open, the process lets go of the file: the
            # run then keeps what is printed, within bounds and with tokens masked.
            with open_console(run_dir / START) as console:
                child = subprocess.Popen(  # noqa: S603 - our own module; the rest goes by stdin
                    # -P: `-m` puts the working directory first on the path of modules, and a
                    # `torch.py` that lies there would be executed.
                    [sys.executable, "-P", "-m", new.module],
                    stdin=subprocess.PIPE,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C or a closed terminal ends only the server
                    pass_fds=(write_end,),
                    cwd=new.cwd,
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
    """Why there is no run. A directory with nothing but what was printed in it is removed."""
    if answer.get("late") is True:
        return MidstepError(
            f"the run in {run_dir.name} has not started yet; the list shows it when it does"
        )
    output = console_tail(run_dir / START)
    remove_failed_start(run_dir)
    if "refused" in answer:
        return ConfigError(str(answer["refused"]))
    return MidstepError(
        f"the process ended before its run started. It printed: {output or 'nothing'}"
    )


def remove_failed_start(run_dir: Path) -> None:
    """Remove a directory in which there is nothing but what its process printed."""
    with suppress(OSError):  # it then stays, for the user to look into
        if {entry.name for entry in run_dir.iterdir()} == {START}:
            (run_dir / START).unlink()
            run_dir.rmdir()


def open_console(path: Path) -> BinaryIO:
    """The file that a process prints to; created for this user alone.

    Raises:
        StorageError: it is a link or a pipe, or has a second name.
    """
    with storage_errors(path, "open"):
        return open(path, "ab", opener=open_for_writing)


def console_tail(path: Path) -> str:
    """The end of what a process printed, tokens masked; empty when it cannot be read."""
    with suppress(OSError), open_plain(path.parent, path.name) as file:
        file.seek(-min(TAIL_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return mask_page_tokens(file.read(TAIL_BYTES).decode(errors="replace").strip())
    return ""
