"""Standard streams that may be closed: in a program started with `2>&-`, or without a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from midstep.core.streams.stream_tap import own_lines


def write_to_stderr(text: str) -> None:
    """Write to standard error, as a line of ours; nothing happens if it is closed."""
    stream = sys.stderr
    if stream is None or stream.closed:
        return
    # Suppressed: nobody reads it any more; the training continues.
    with own_lines(), suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


def print_notice(words: str) -> None:
    """Print one line of ours on standard error, if it is open."""
    write_to_stderr(f"midstep: {words}\n")


def open_missing_standard_streams() -> None:
    """Open the null device on each of the descriptors 0, 1 and 2 that is closed.

    Else the next file that is opened gets that number: a library that writes to descriptor 2 would
    then write into the facts.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
