"""Say which build of torch pip is about to take, before it takes it.

Without a pin and a local wheel pip may bring several gigabytes of CUDA libraries, which should
be no surprise. Nothing is installed here; a failure to find out is no failure of the install.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def describe(version: str) -> str:
    """A torch version in words.

    >>> describe("2.13.0+cpu")
    'torch 2.13.0+cpu: CPU build'
    """
    _, _, local = version.partition("+")
    if local == "cpu":
        kind = "CPU build"
    elif local:
        kind = f"build for {local}, several GB"
    elif sys.platform == "linux":
        kind = "default build, on Linux usually with CUDA, several GB"
    else:
        kind = "default build"
    return f"torch {version}: {kind}"


def chosen_version(constraints: str) -> str | None:
    """The version pip would install under these constraints, or None if it cannot say."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "-c", constraints, "--report", "-", "torch"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    return str(json.loads(answer.stdout)["install"][0]["metadata"]["version"])


def installed_version(constraints: str) -> str | None:
    """The installed version, or None if there is none or the constraints name another one."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    pinned = re.search(r"^torch==(\S+)", Path(constraints).read_text(), re.MULTILINE)
    fits = pinned is None or pinned[1] in {version, version.partition("+")[0]}
    return version if fits else None


def main(constraints: str) -> None:
    """Print one line."""
    if version := installed_version(constraints):
        print(f"{describe(version)}, already installed", flush=True)
        return
    version = chosen_version(constraints)
    words = describe(version) if version else "torch: pip could not say which build it takes"
    print(f"installing {words}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "constraints.txt")
