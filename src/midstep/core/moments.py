"""The moments of a run at which an event is recorded."""

from __future__ import annotations

from enum import StrEnum


class Moment(StrEnum):
    """The moment of an event; the value is written to the file."""

    START = "on_start"
    STEP = "on_step"
    EPOCH_END = "on_epoch_end"
    VALIDATION_END = "on_validation_end"
    TEST_END = "on_test_end"
    TRAIN_END = "on_train_end"
    EXCEPTION = "on_exception"
    INTERVENTION = "on_intervention"


LIFECYCLE = frozenset(Moment) - {Moment.STEP, Moment.INTERVENTION}
"""Moments whose record is synced to the disk before the call returns."""
