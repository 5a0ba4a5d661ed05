"""What a run was started with, as files of its directory: the git diff and the list of packages.

They may contain secrets, so only their owner can read them, no record of the facts contains them,
and a view-only link does not get them.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

from midstep.core.errors import StorageError
from midstep.core.files.masked_text import mask_page_tokens
from midstep.core.files.storage import make_subfolder, replace_bytes

MOST_DIFF_BYTES = 1 << 20
"""A longer diff is cut, and its last line says so."""
_TIMEOUT_S = 2.0
_INSTALLED = re.compile(r"(.+?)-([^-]+)\.(?:dist-info|egg-info)")

log = logging.getLogger("midstep.session")


def write_environment(run_dir: Path, attempt: int, cwd: Path, *, git_diff: bool) -> None:
    """Write `artifacts/packages.txt`, and `artifacts/git-diff.patch` if tracked files differ.

    Args:
        run_dir: the run directory.
        attempt: files of later attempts have its number in their names.
        cwd: a folder of the git repository.
        git_diff: whether to write the diff.
    """
    number = "" if attempt == 1 else f".{attempt}"
    contents = {f"packages{number}.txt": "\n".join(installed_packages()).encode() + b"\n"}
    diff = read_diff(cwd) if git_diff else b""
    if diff:
        contents[f"git-diff{number}.patch"] = diff
    try:
        folder = make_subfolder(run_dir, "artifacts")
        for name, content in contents.items():
            replace_bytes(folder / name, content, durable=False, mode=0o600)
    except StorageError as error:  # the training matters more than these files
        log.warning("%s", error)


def installed_packages() -> list[str]:
    """`name==version` of every installed package, sorted. Their metadata is not opened."""
    packages: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = [entry.name for entry in Path(folder or ".").iterdir()]
        except OSError:  # a zip file, or a folder that does not exist
            continue
        for name in names:
            match = _INSTALLED.fullmatch(name)
            if match:  # the first on the path is the one that is imported
                packages.setdefault(match[1].lower().replace("_", "-"), match[2])
    return sorted(f"{name}=={version}" for name, version in packages.items())


def read_diff(cwd: Path) -> bytes:
    """How tracked files differ from the commit, at most 1 MiB; empty if they do not.

    Of binary files only the names are in it. It is empty without git or a repository, too.
    """
    # Into a file, not into memory: the diff of generated files can be huge.
    with TemporaryFile() as output:
        try:
            ended = subprocess.run(
                # No program that the repository's own settings name is started.
                ["git", "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--"],  # noqa: S607 - the user's own git is meant
                cwd=cwd,
                env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return b""
        if ended.returncode != 0:
            return b""
        output.seek(0)
        diff = output.read(MOST_DIFF_BYTES + 1)
    is_cut = len(diff) > MOST_DIFF_BYTES
    if b"token" in diff:
        diff = mask_page_tokens(diff.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
    if not is_cut:
        return diff[:MOST_DIFF_BYTES]  # a mask may be longer than a token
    note = b"\n# cut here: the diff is longer than 1 MiB\n"
    return diff[: MOST_DIFF_BYTES - len(note)] + note
