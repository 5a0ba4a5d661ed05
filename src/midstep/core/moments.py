"""The moments of a run that are worth a record."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["LIFECYCLE", "Moment"]


class Moment(StrEnum):
    """When a fact was recorded; the value is what stands in the file."""

    START = "on_start"
    STEP = "on_step"
    EPOCH_END = "on_epoch_end"
    VALIDATION_END = "on_validation_end"
    TEST_END = "on_test_end"
    TRAIN_END = "on_train_end"
    EXCEPTION = "on_exception"
    INTERVENTION = "on_intervention"


LIFECYCLE = frozenset(Moment) - {Moment.STEP, Moment.INTERVENTION}
"""Moments whose record is on the disk itself (fsync) before the call returns."""
