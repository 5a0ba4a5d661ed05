"""Every route × method of the app object, with addresses filled in."""

from __future__ import annotations

import re
from typing import Any

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
OPEN = {"/", "/api/v1/health"}
FILL = {
    "run_id": "000000000000",
    "breakpoint_id": "1",
    "command_id": "abc",
    "key": "ids",
    "dataset_id": "small",
    "pair": "0",
}


def paths_of(app: Any, run_id: str) -> list[str]:
    """Concrete paths of all routes."""
    fill = {**FILL, "run_id": run_id}
    patterns = [route.path for route in app.routes]
    return sorted({re.sub(r"\{(\w+)(:\w+)?\}", lambda m: fill.get(m[1], "x"), p) for p in patterns})


def is_subscription(path: str) -> bool:
    """Whether a viewer may write there, by PUT."""
    return path.endswith("/debug/streams/x/subscriptions")


def is_open(path: str) -> bool:
    """Whether a path may be read without a token."""
    page = re.fullmatch(r"/(assets|live|explorer|runs|influence|reports|data)/x", path)
    return path in OPEN or page is not None
