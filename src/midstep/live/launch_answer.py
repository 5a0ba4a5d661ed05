"""How a process that was launched for a run says that the run exists, or why it does not."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.facts.format.console_parts import START


def answer_launcher(descriptor: int, answer: Mapping[str, Any], launched_dir: Path) -> None:
    """Write one line of JSON for the launcher, and close the pipe.

    Args:
        descriptor: of the pipe.
        answer: `{"started": true}` or `{"refused": reason}`.
        launched_dir: the directory that the launcher has made.
    """
    if answer.get("started") is True:
        leave_start_output(launched_dir)
    with suppress(BrokenPipeError):  # the launcher has ended; the run continues
        os.write(descriptor, f"{strict_json.dumps(dict(answer))}\n".encode())
    os.close(descriptor)


def leave_start_output(launched_dir: Path) -> None:
    """Stop writing standard output and error into the file for a failed start, and remove it.

    From now on the run keeps what is printed: within its bounds, and with tokens masked. A file
    that the system writes would have neither.
    """
    path = launched_dir / START
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or replaced by the script
            stream.flush()
    with suppress(OSError):  # it was not launched with such a file
        start = path.lstat()
        null = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            if os.path.samestat(os.fstat(descriptor), start):
                os.dup2(null, descriptor)
        os.close(null)
        path.unlink()
        launched_dir.rmdir()  # empty only if the script opened a run in another directory
