"""Environments of their own for libraries that a benchmark compares with.

Their requirements conflict with each other, so each gets one under `.bench-env/`. It borrows what
the running environment has (torch, numpy, midstep): only what is missing is installed into it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

__all__ = ["ROOT", "NoEnvironment", "environment"]

ROOT = Path(__file__).resolve().parents[1] / ".bench-env"
LIMIT_S = 600
"""A resolver that has found nothing by then does not come to an end."""
TOLD_LINES = 12


class NoEnvironment(RuntimeError):  # noqa: N818 - a benchmark goes on without it and says so
    """The packages could not be installed; the message ends with what pip said last."""


def environment(name: str, *packages: str) -> Path:
    """The Python of `.bench-env/<name>/`, made now unless it is there with just these packages.

    Args:
        name: Of the folder.
        packages: As pip takes them.

    Raises:
        NoEnvironment: When it could not be made.
    """
    folder = ROOT / name
    stamp, wanted = folder / "made-for.txt", _wanted(packages)
    if not (stamp.is_file() and stamp.read_text() == wanted):
        print(
            f"installing {', '.join(packages)} into .bench-env/{name}", file=sys.stderr, flush=True
        )
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, packages)
        stamp.write_text(wanted)
    return _python(folder)


def borrowed() -> list[str]:
    """Where the running environment looks packages up."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _wanted(packages: Sequence[str]) -> str:
    """What an environment depends on: another torch or another place makes it stale too."""
    python = f"python {sys.version.split()[0]}"
    return "\n".join([*packages, _torch_pin(), python, *borrowed()]) + "\n"


def _torch_pin() -> str:
    # The one pin that matters: a second torch takes gigabytes. With all of ours pip finds no end.
    return f"torch=={metadata.version('torch')}"


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _make(folder: Path, packages: Sequence[str]) -> None:
    venv.create(folder, with_pip=False, symlinks=True)
    own = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # Appended, so its own packages come first; with the `.pth` files there, thus editable installs.
    lines = [f"import site; site.addsitedir({path!r})\n" for path in borrowed()]
    (own / "borrowed.pth").write_text("".join(lines))
    pins = folder / "constraints.txt"
    pins.write_text(_torch_pin() + "\n")
    _install(_python(folder), pins, packages)


def _install(python: Path, pins: Path, packages: Sequence[str]) -> None:
    """By the borrowed pip, which counts what is borrowed as installed."""
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "-c", str(pins), *packages]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise NoEnvironment(
            f"pip did not come to an end with {', '.join(packages)} within {LIMIT_S} s; "
            "name fewer packages, or versions of them"
        ) from late
    if done.returncode != 0:
        last = "\n".join(done.stdout.strip().splitlines()[-TOLD_LINES:])
        raise NoEnvironment(f"pip could not install {', '.join(packages)}:\n{last}")
