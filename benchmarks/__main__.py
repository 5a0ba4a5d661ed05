"""`make bench`: every figure with its noise and its bar, as a table.

python -m benchmarks            all
python -m benchmarks control    the modules named
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata

MODULES = (
    "clusters",
    "control",
    "datasets",
    "debugger",
    "facts",
    "forces",
    "influence",
    "live",
    "loaders",
    "metrics",
    "mining",
    "page",
    "panels",
    "runs",
    "runs_page",
    "serve",
    "session",
    "snapshot",
)
HEAD = "| what | figure | noise | bar | | note |\n|---|---|---|---|---|---|"


def _machine() -> str:
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("torch", "fastapi", "numpy")
    )
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), "
        f"{memory:.0f} GiB, Python {platform.python_version()}, {versions}"
    )


def main(names: list[str]) -> int:
    """Print the table; the exit code says whether every bar was held."""
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    print(f"{_machine()}\n\n{HEAD}", flush=True)
    missed = 0
    for name in names or MODULES:
        for figure in importlib.import_module(f"benchmarks.bench_{name}").figures():
            print(figure.row(), flush=True)
            missed += figure.passes is False
    print(f"\n{missed} bars missed" if missed else "\nall bars held")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
