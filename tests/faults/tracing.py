"""Runs a Python program under strace, with one system call made to fail or to kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class Traced(NamedTuple):
    """What became of the traced program."""

    was_killed: bool
    was_hit: bool
    """Whether the injection came to pass."""
    told: list[dict[str, Any]]
    errors: str


def trace(
    strace: str, arguments: list[str], *, paths: list[Path], inject: str, log: Path
) -> Traced:
    """Run a script of this folder; `inject` is what follows `-e inject=`."""
    command = [strace, "-f", "-qq", "-o", str(log)]
    for path in paths:
        command += ["-P", str(path)]
    command += ["-e", f"trace={inject.split(':', maxsplit=1)[0]}", "-e", f"inject={inject}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [*command, sys.executable, *arguments],
        capture_output=True,
        timeout=60,
        env=environment,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    was_killed = done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}
    text = log.read_text(errors="replace")
    was_hit = was_killed or "(INJECTED)" in text
    return Traced(was_killed, was_hit, told, done.stderr.decode(errors="replace"))
