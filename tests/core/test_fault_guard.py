"""A fault of ours switches one part off, is logged once, and never reaches the training."""

import logging

import pytest

from midstep.core.fault_guard import FaultGuard, disable_on_error

LOG = logging.getLogger("midstep.test_fault_guard")


def _raise(error: BaseException) -> None:
    raise error


def test_work_passes_arguments_and_result_through_while_it_is_well():
    assert disable_on_error(dict, "building", LOG)([("a", 1)], b=2) == {"a": 1, "b": 2}


def test_first_error_is_logged_with_its_traceback_and_work_runs_no_more(caplog):
    calls = []

    def work(value: int) -> None:
        calls.append(value)
        _raise(ValueError("a fault"))

    guarded = disable_on_error(work, "reading the loss", LOG)
    assert [guarded(1), guarded(2)] == [None, None]

    assert calls == [1]
    (record,) = caplog.records
    assert record.getMessage() == "reading the loss failed and is off; training continues"
    assert record.name == LOG.name
    assert record.exc_info[0] is ValueError


def test_functions_of_one_guard_are_switched_off_together(caplog):
    faults: list[Exception] = []
    guard = FaultGuard("measuring", LOG, faults.append)
    assert (guard.run(int, "3"), guard.is_off) == (3, False)

    guard.run(_raise, KeyError("gone"))

    assert (guard.run(int, "3"), guard.is_off) == (None, True)
    assert [repr(error) for error in faults] == ["KeyError('gone')"]
    assert len(caplog.records) == 1


def test_part_is_off_already_when_its_fault_is_handled(caplog):
    states = []
    guard = FaultGuard("hooking", LOG, lambda _error: states.append(guard.is_off))
    guard.run(_raise, ValueError())
    assert states == [True]


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_interrupt_passes_through_and_switches_nothing_off(signal):
    guard = FaultGuard("measuring", LOG)
    with pytest.raises(signal):
        guard.run(_raise, signal())
    assert not guard.is_off
