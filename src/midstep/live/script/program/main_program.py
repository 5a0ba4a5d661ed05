"""Runs a script as `python SCRIPT` and `python -m MODULE` do."""

from __future__ import annotations

import importlib.machinery
import io
import os
import sys
from types import ModuleType
from typing import Any

from midstep.core.errors import StopTraining
from midstep.live.script.program.own_frames import hide_own_frames, strip_own_frames
from midstep.live.script.program.script_command import ScriptCommand
from midstep.live.script.watched_script import WatchedScript


def run_script(command: ScriptCommand) -> None:
    """Run the script to its end, with everything that it raises.

    Args:
        command: the script, its arguments and our options.
    """
    if command.answer_to is not None:  # no program that the script starts keeps the pipe open
        os.set_inheritable(command.answer_to, False)  # noqa: FBT003 - positional only
    watched = WatchedScript(command)
    watched.begin()
    raised: BaseException | None = None
    try:
        if command.is_module:
            _run_module(command)
        else:
            _run_file(command)
    except BaseException as error:  # noqa: BLE001 - raised again below, when the run is closed
        strip_own_frames(error)
        raised = error
    try:
        watched.end(raised)
    except KeyboardInterrupt as error:  # in a run that was paused after its last step
        strip_own_frames(error)
        raised = error
    if raised is not None and not isinstance(raised, StopTraining):
        hide_own_frames(raised)
        raise raised


def _prepare(command: ScriptCommand, first_path: str, argv0: str) -> ModuleType:
    """What the interpreter sets before it runs a script; returns the new `__main__`."""
    sys.orig_argv = command.python()
    sys.argv = [argv0, *command.arguments]
    if sys.flags.safe_path:  # -P: Python puts nothing in front of the path
        del sys.path[0]
    else:
        sys.path[0] = first_path
    main = ModuleType("__main__")
    vars(main).update(__annotations__={}, __builtins__=sys.modules["builtins"])
    sys.modules["__main__"] = main
    return main


def _run_file(command: ScriptCommand) -> None:
    path = os.path.abspath(command.target)  # noqa: PTH100 - Python resolves no link here either
    if os.path.isdir(path) or command.target.endswith((".zip", ".pyz")):  # noqa: PTH112
        _prepare(command, command.target, command.target)
        _run_as_main("__main__", alter_argv=False)
        return
    folder = os.path.dirname(os.path.realpath(command.target))  # noqa: PTH120
    main = _prepare(command, folder, command.target)
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(main).update(__file__=path, __cached__=None, __loader__=loader)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, vars(main))  # noqa: S102 - this runs the user's own script, as requested


def _run_module(command: ScriptCommand) -> None:
    _prepare(command, os.getcwd(), "-m")  # noqa: PTH109
    _run_as_main(command.target, alter_argv=True)


def _run_as_main(name: str, *, alter_argv: bool) -> None:
    """What the interpreter itself calls for `-m`, and for a folder or an archive."""
    import runpy

    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    run(name, alter_argv)
