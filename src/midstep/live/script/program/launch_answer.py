"""How a process that was launched for a run says that the run exists, or why it does not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from midstep.core import strict_json


def answer_launcher(descriptor: int, answer: Mapping[str, Any]) -> None:
    """Write one line of JSON for the launcher, and close the pipe.

    Args:
        descriptor: of the pipe.
        answer: `{"started": true}` or `{"refused": reason}`.
    """
    with suppress(BrokenPipeError):  # the launcher has ended; the run continues
        os.write(descriptor, f"{strict_json.dumps(dict(answer))}\n".encode())
    os.close(descriptor)
