"""Ids of runs and commands, and the names of run directories."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from midstep.core.errors import ConfigError

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: without i, l, o and u, which are easily misread."""
RUN_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{12}")
"""The form of a run id: twelve characters of Crockford's base 32."""


def new_run_id() -> str:
    """A new random run id. A run has one id for all its attempts.

    >>> is_run_id(new_run_id())
    True
    """
    return "".join(secrets.choice(ALPHABET) for _ in range(12))


def is_run_id(text: str) -> bool:
    """Whether `text` has the form of a run id."""
    return RUN_ID.fullmatch(text) is not None


def new_command_id() -> str:
    """A new random command id. A client that may retry makes it itself and sends it again."""
    return secrets.token_hex(8)


def slug(name: str) -> str:
    """`name` with only letters, digits, dots, dashes and underscores, for a directory name.

    >>> slug("My run: no. 7/8")
    'My-run-no.-7-8'
    """
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:64]
    if not text:
        raise ConfigError(f"run name {name!r} has no letter or digit; use for example 'baseline-1'")
    return text


def run_directory_name(name: str, at: datetime) -> str:
    """The directory name of a run that was started at time `at`.

    >>> run_directory_name("demo", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    'run_20260102T030405Z_demo'
    """
    return f"run_{at.astimezone(UTC):%Y%m%dT%H%M%SZ}_{slug(name)}"
