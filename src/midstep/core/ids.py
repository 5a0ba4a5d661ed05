"""Ids of runs and commands, and the names of run directories."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from midstep.core.errors import ConfigError

__all__ = ["RUN_ID", "is_run_id", "new_command_id", "new_run_id", "run_directory_name", "slug"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
RUN_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{12}")
"""What a run id looks like: twelve characters of Crockford's base 32."""


def new_run_id() -> str:
    """A fresh run id, drawn once per run.

    >>> is_run_id(new_run_id())
    True
    """
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))


def is_run_id(text: str) -> bool:
    """Whether `text` has the form of a run id."""
    return RUN_ID.fullmatch(text) is not None


def new_command_id() -> str:
    """A fresh command id; a caller that may retry draws it itself and repeats it."""
    return secrets.token_hex(8)


def slug(name: str) -> str:
    """`name` as part of a directory name: letters, digits, dot, dash and underscore.

    >>> slug("My run: no. 7/8")
    'My-run-no.-7-8'
    """
    made = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:64]
    if not made:
        raise ConfigError(f"run name {name!r} has no letter or digit; use for example 'baseline-1'")
    return made


def run_directory_name(name: str, at: datetime) -> str:
    """The directory of a run started `at` a time.

    >>> run_directory_name("demo", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    'run_20260102T030405Z_demo'
    """
    return f"run_{at.astimezone(UTC):%Y%m%dT%H%M%SZ}_{slug(name)}"
