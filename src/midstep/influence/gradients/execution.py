"""Pointwise functions that are compiled into one kernel on a GPU and run as they are elsewhere."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

import torch

MIN_COMPILED_VALUES = 2**20
"""Fewer values than this are not worth a compilation of their own."""
_log = logging.getLogger("midstep.influence")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def fused(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile `function` for large tensors on a GPU; eager, said once, where that fails."""
    compiled: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        first = next((each for each in args if isinstance(each, torch.Tensor)), None)
        if first is None or not first.is_cuda or first.numel() < MIN_COMPILED_VALUES:
            return function(*args, **kwargs)
        if not compiled:
            compiled.append(torch.compile(function))
        try:
            result: _Result = compiled[0](*args, **kwargs)
        except Exception as error:
            if compiled[0] is function:
                raise
            _log.warning("%s runs uncompiled: %s", function.__name__, error)
            compiled[0] = function
            result = function(*args, **kwargs)
        return result

    return call


_Item = TypeVar("_Item")


def run_in_threads(shares: Sequence[Sequence[_Item]], work: Callable[[int, _Item], None]) -> None:
    """Call `work(lane, item)` for the items of each share in their order, a thread a share.

    An error in one lane, or Ctrl-C, ends all of them before their next item; the first error is
    raised once every thread has ended.

    >>> found = [[], []]
    >>> run_in_threads([[1, 2], [3]], lambda lane, item: found[lane].append(item))
    >>> found
    [[1, 2], [3]]
    """
    stop, ready = threading.Event(), threading.Semaphore(0)
    finished = [threading.Event() for _ in shares]
    errors: list[BaseException] = []

    def run(worker: int) -> None:
        # Of this thread alone; for threads that start later the caller puts it right below.
        torch.set_num_threads(1)
        ready.release()
        try:
            with torch.no_grad():
                for item in shares[worker]:
                    if stop.is_set():
                        return
                    work(worker, item)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)
            stop.set()
        finally:
            finished[worker].set()

    threads = [
        threading.Thread(target=run, args=(worker,), name=f"influence-{worker}")
        for worker in range(len(shares))
    ]
    thread_count = torch.get_num_threads()
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            ready.acquire()
        torch.set_num_threads(thread_count)
        for each in finished:  # Python 3.11 takes a thread for ended whose join was interrupted
            each.wait()
    finally:
        stop.set()
        for each, thread in zip(finished, threads, strict=True):
            if thread in threading.enumerate():  # also one whose start was interrupted
                each.wait()
                thread.join()
        torch.set_num_threads(thread_count)
    if errors:
        raise errors[0]


PhaseTimer = Callable[[str], AbstractContextManager[object]]
"""Called with the name of a phase; the phase lasts as long as the `with` block."""


def no_timer(_: str) -> AbstractContextManager[object]:
    """No measuring: what is used unless another stopwatch is given."""
    return nullcontext()
