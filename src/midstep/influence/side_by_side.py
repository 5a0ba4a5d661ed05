"""Whole pieces of work in threads of their own, a core each.

Spreading every short operation over the cores makes one core read what another has just written.
Here a thread takes whole items, its operations on one core; which items are whose is fixed by the
caller, so that sums do not depend on which thread was faster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

__all__ = ["side_by_side"]

_Item = TypeVar("_Item")


def side_by_side(shares: Sequence[Sequence[_Item]], work: Callable[[int, _Item], None]) -> None:
    """Call `work(lane, item)` for the items of each share in their order, a thread a share.

    An error in one lane, or Ctrl-C, ends all of them before their next item; the first error is
    raised once every thread has ended.

    >>> found = [[], []]
    >>> side_by_side([[1, 2], [3]], lambda lane, item: found[lane].append(item))
    >>> found
    [[1, 2], [3]]
    """
    stop, ready = threading.Event(), threading.Semaphore(0)
    ended = [threading.Event() for _ in shares]
    errors: list[BaseException] = []

    def run(lane: int) -> None:
        # Of this thread alone; for threads that start later the caller puts it right below.
        torch.set_num_threads(1)
        ready.release()
        try:
            with torch.no_grad():
                for item in shares[lane]:
                    if stop.is_set():
                        return
                    work(lane, item)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)
            stop.set()
        finally:
            ended[lane].set()

    threads = [
        threading.Thread(target=run, args=(lane,), name=f"influence-{lane}")
        for lane in range(len(shares))
    ]
    usual = torch.get_num_threads()
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            ready.acquire()
        torch.set_num_threads(usual)
        for each in ended:  # Python 3.11 takes a thread for ended whose join was interrupted
            each.wait()
    finally:
        stop.set()
        for each, thread in zip(ended, threads, strict=True):
            if thread in threading.enumerate():  # also one whose start was interrupted
                each.wait()
                thread.join()
        torch.set_num_threads(usual)
    if errors:
        raise errors[0]
