"""Copies golden runs for a test, which may write into the copy."""

from __future__ import annotations

import json
import platform
import shutil
import time
from pathlib import Path

GOLDEN = Path(__file__).parent
RUNS = GOLDEN / "runs"
IDS = {
    name: f"g{number:011d}"
    for number, name in enumerate(
        (
            "attached",
            "session",
            "rewound",
            "competitive",
            "failed",
            "damaged",
            "unreadable",
            "elsewhere",
            "lost",
            "killed",
        ),
        start=1,
    )
}
"""Golden runs and their ids."""
LEASE_BYTES = 1024
"""Changed leases are filled up with spaces, since answers tell the size of a run's files."""
LINKS = ("last", "best_val", "model")
"""Links of a run directory. Git may hold them as files of their targets: not every checkout can
make links, and not every copy of the repository keeps them."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def copy_runs(folder: Path, *, without: tuple[str, ...] = ()) -> Path:
    """All golden runs below `folder`; gives back the folder that holds their directories."""
    copied = folder / "runs"
    shutil.copytree(
        RUNS, copied, symlinks=True, ignore=lambda at, _: without if at == str(RUNS) else ()
    )
    _restore_links(copied)
    beat(copied / "elsewhere")
    boot_id = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    _change_lease(copied / "killed", host=platform.node(), boot_id=boot_id)
    return copied


def _restore_links(runs: Path) -> None:
    for path in (run / name for run in runs.iterdir() for name in LINKS):
        if path.is_file() and not path.is_symlink():
            target = path.read_text()
            path.unlink()
            path.symlink_to(target)


def beat(run_dir: Path) -> None:
    """Do for a run on another host what its process does once a second."""
    now = float(int(time.time()))
    _change_lease(run_dir, heartbeat=int(now), heartbeat_wall=now, boundary_mono=now)


def _change_lease(run_dir: Path, **fields: object) -> None:
    """Make a stored lease true on this machine, now; readers see the old one or the new one."""
    path = run_dir / "lease.json"
    text = json.dumps({**json.loads(path.read_text()), **fields})
    replacement = path.with_suffix(".new")
    replacement.write_text(text.ljust(LEASE_BYTES))
    replacement.replace(path)
