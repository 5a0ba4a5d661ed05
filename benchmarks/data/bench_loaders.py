"""Our steering loader beside those of other libraries, each in its environment and process.

What could not be measured is a row that says why; it misses its bar only where the bar asks for
that library (torchdata, Hugging Face datasets), not where it is "where they install".
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data.other_loaders import BAR, OTHERS
from benchmarks.environments import NoEnvironment, environment
from benchmarks.figures import Figure

__all__ = ["figures", "measured", "not_measured"]

LIMIT_S = 300
HERE = Path(__file__).resolve().parents[2]


def measured(name: str) -> list[Figure]:
    """The rows of one library, timed by a child in its environment.

    Raises:
        NoEnvironment: It could not be installed.
        RuntimeError: It failed, or took too long.
    """
    python = environment(name, OTHERS[name].package)
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "figures.json"
        # Their caches go where the answer goes; nobody asks a server for anything.
        places = {"HF_HOME": folder, "HF_HUB_OFFLINE": "1", "LITDATA_CACHE_DIR": folder}
        command = [str(python), "-m", "benchmarks.data.other_loaders", name, str(answer)]
        try:
            done = subprocess.run(
                command,
                cwd=HERE,
                env={**os.environ, **places},
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"no figure within {LIMIT_S} s") from late
        if done.returncode != 0:
            raise RuntimeError(_last_line(done.stderr) or f"ended with {done.returncode}")
        return [Figure(**fields) for fields in json.loads(answer.read_text())]


def not_measured(name: str, why: str) -> Figure:
    """The row of a library that gave no figure."""
    return Figure(
        name=f"steering loader against {next(iter(OTHERS[name].ways))}",
        value=math.nan,
        unit="×",
        bar=BAR if OTHERS[name].required else None,
        at_least=True,
        note=f"not measured: {why}".replace("|", "/"),
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def figures() -> Iterator[Figure]:
    """All figures of this module."""
    for name in OTHERS:
        try:
            yield from measured(name)
        except (NoEnvironment, RuntimeError) as gone:
            yield not_measured(name, _last_line(str(gone)))
