"""The way in: the console script `midstep`, or `python -m midstep` where it is missing."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130


def run() -> int:
    """Load the commands and run one; Ctrl-C while they load ends without a traceback."""
    try:
        from midstep.cli.main import main
    except KeyboardInterrupt:  # nothing has begun; a second one must not find us cleaning up
        os._exit(INTERRUPTED)
    return main()


def train() -> int:
    """The console script `midstep-train`: `midstep train` with the same arguments."""
    try:
        from midstep.cli.main import main
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    return main(["train", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(run())
