"""The header record of a run: host, versions, command line without secrets, git state."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from midstep.core.files.masked_text import MASK, names_a_secret
from midstep.core.version import __version__

_GIT_TIMEOUT_S = 0.5
"""A large repository on a slow disk may take longer; then its state is recorded as unknown."""

_ASSIGNED = re.compile(r"([-\w./]+)=(.*)", re.DOTALL)
_IN_ADDRESS = re.compile(r"(://[^/@:\s]*):[^/@\s]+@")


def process_info(command: Sequence[str] | None, cwd: Path) -> dict[str, Any]:
    """Host, versions, command line and git state of this process."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "platform": platform.platform(),
        "versions": versions(),
        "threads": thread_count(),
        "script": script_digest(),
        "argv": without_secrets(sys.orig_argv if command is None else command),
        "cwd": str(cwd),
        "git": git_state(cwd),
    }


def without_secrets(argv: Sequence[str]) -> list[str]:
    """The command line with `***` for the value after a name such as `--api-key` or `HF_TOKEN=`.

    A name is secret if one of its words ends with `key`, `token` and the like. `--tokenizer` and
    `--max-tokens` are not.

    >>> without_secrets(["train.py", "--api-key", "abc", "db.password=xyz", "--tokenizer", "bpe"])
    ['train.py', '--api-key', '***', 'db.password=***', '--tokenizer', 'bpe']
    """
    masked: list[str] = []
    is_value_next = False  # the option before this entry names a secret and has no value yet
    for entry in argv:
        assigned = _ASSIGNED.fullmatch(entry)
        if is_value_next and not entry.startswith("-"):
            masked.append(MASK)
        elif assigned is not None and names_a_secret(assigned[1]):
            masked.append(f"{assigned[1]}={MASK}")
        else:
            masked.append(_IN_ADDRESS.sub(rf"\1:{MASK}@", entry))
        is_value_next = entry.startswith("-") and assigned is None and names_a_secret(entry)
    return masked


def mask_secrets(settings: Any, name: str = "") -> Any:
    """Settings with `***` for each text whose key, or the key above it, names a secret.

    >>> mask_secrets({"lr": 0.1, "wandb": {"api_key": "abc"}, "pad_token": 0})
    {'lr': 0.1, 'wandb': {'api_key': '***'}, 'pad_token': 0}
    """
    if isinstance(settings, Mapping):
        above = name if names_a_secret(name) else None
        return {key: mask_secrets(each, above or str(key)) for key, each in settings.items()}
    if isinstance(settings, list | tuple):
        return [mask_secrets(each, name) for each in settings]
    return MASK if isinstance(settings, str | bytes) and names_a_secret(name) else settings


def versions() -> dict[str, str | None]:
    """Versions of Python, torch and midstep; None for torch if this process has not loaded it."""
    torch = sys.modules.get("torch")
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__) if torch is not None else None,
        "midstep": __version__,
    }


def thread_count() -> int | None:
    """Threads that torch computes with; None if this process has not loaded torch."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def script_digest() -> str | None:
    """A hash of the main script, to notice that it was edited; None without a readable one."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        data = None if path is None else Path(path).read_bytes()
    except OSError:
        return None
    return None if data is None else hashlib.blake2b(data, digest_size=8).hexdigest()


def git_state(cwd: Path) -> dict[str, Any] | None:
    """The commit, and whether tracked files differ from it; None outside a repository.

    `dirty` is None if git does not answer within half a second.
    """
    commit = _git(cwd, "rev-parse", "--verify", "HEAD")
    if commit is None or commit.returncode != 0:
        return None
    changed = _git(cwd, "diff-index", "--quiet", "HEAD", "--")
    dirty = None
    if changed is not None and changed.returncode in (0, 1):  # other codes are errors of git
        dirty = changed.returncode == 1
    return {"commit": commit.stdout.strip(), "dirty": dirty}


def _git(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Call git without taking its locks; None if git is missing or too slow."""
    try:
        return subprocess.run(  # noqa: S603 - a fixed command without user input
            ["git", *arguments],  # noqa: S607 - the user's own git is meant
            cwd=cwd,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def device_of(model: Any) -> str | None:
    """The device of the model, with the name of the GPU; None without a model."""
    first = next(iter(model.parameters()), None) if model is not None else None
    if first is None:
        return None
    if first.device.type == "cuda":
        import torch

        return f"{first.device} ({torch.cuda.get_device_name(first.device)})"
    return str(first.device)
