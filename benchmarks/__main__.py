"""`make bench`: every figure with its noise and its bar, as a table.

python -m benchmarks            all
python -m benchmarks control    the parts named
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata

PARTS = {
    "captures": "page",
    "charts": "page",
    "clusters": "data",
    "control": "control",
    "datasets": "data",
    "debugger": "control",
    "facts": "facts",
    "figures": "monitoring",
    "forces": "page",
    "influence": "influence",
    "live": "session",
    "load": "server",
    "loaders": "data",
    "metrics": "session",
    "mining": "data",
    "page": "page",
    "panels": "page",
    "peers": "facts",
    "runs": "facts",
    "runs_page": "page",
    "script": "session",
    "serve": "server",
    "session": "session",
    "snapshot": "session",
    "tabs": "page",
}
"""Parts by name, each with the folder of its `bench_<name>.py`."""
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
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    print(f"{_machine()}\n\n{HEAD}", flush=True)
    missed = 0
    for name in names or PARTS:
        part = importlib.import_module(f"benchmarks.{PARTS[name]}.bench_{name}")
        for figure in part.figures():
            print(figure.row(), flush=True)
            missed += figure.passes is False
    print(f"\n{missed} bars missed" if missed else "\nall bars held")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
