"""What the tests of the facts share."""

from __future__ import annotations

import pytest

from midstep.facts import outbox


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not a slow disk: rows must not begin to wait in the middle of a test."""
    monkeypatch.setattr(outbox, "SLOW_WRITE_S", 1e9)
