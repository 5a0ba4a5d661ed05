"""How much memory of the host is free."""

from __future__ import annotations

import os
from pathlib import Path


def free_host_bytes() -> int:
    """Memory that can be allocated without swapping; half of all memory if that is unknown.

    >>> free_host_bytes() >= 0
    True
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) << 10  # in KiB
    except (OSError, KeyError, ValueError):
        return _physical_bytes() // 2


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
