"""Tables of embedding datasets open without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_tables_open_without_torch(folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['h5py'] = None; "
        f"from midstep.data import open_tables; print(len(open_tables({str(folder)!r})))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "17\n"
