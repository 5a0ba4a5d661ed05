"""Ctrl-C during a sweep: every thread ends at its next tile, and the process with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from midstep.influence.gradients.execution import run_in_threads

CHILD = """
import signal, threading, time, torch
from midstep.influence.kernels import tile_contraction
from midstep.influence.kernels.tile_contraction import TileContraction
from midstep.influence.kernels.fisher import fisher_kernel
from tests.influence.tiny_models import batch_of, tiny

torch.set_num_threads(2)
tile_contraction.TILE_BYTES_CPU, tile_contraction.MIN_THREADED_VALUES = 600, 0
told, plain, count = threading.Event(), TileContraction.add, []


def held(self, tile):
    count.append(tile)
    if len(count) == 2:
        print("sweeping", flush=True)
    if len(count) >= 2:
        told.wait(30)  # until the interrupt has come by
    if len(count) > 2:
        time.sleep(0.5)
    plain(self, tile)


def interrupted(*signal_and_frame):
    told.set()
    raise KeyboardInterrupt


TileContraction.add = held
signal.signal(signal.SIGINT, interrupted)
try:
    fisher_kernel(tiny("gpt2"), batch_of(5, 1), preconditioner="sgd", algorithm="sweep")
except KeyboardInterrupt:
    names = [each.name for each in threading.enumerate()]
    print("stopped", len(count) <= 10, names, torch.get_num_threads(), flush=True)
"""
"""There are hundreds of tiles; those behind the interrupt take half a second each."""


def test_interrupt_ends_every_thread_at_its_next_tile() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "sweeping\n"
        child.send_signal(signal.SIGINT)
        said = child.stdout.read()
    assert said == "stopped True ['MainThread'] 2\n"
    assert child.returncode == 0


def test_a_thread_whose_start_is_interrupted_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name == "influence-1":
            begin = thread._bootstrap_inner
            thread._bootstrap_inner = lambda: (time.sleep(0.3), begin())
            thread._started.wait = _ctrl_c
        start(thread)

    def _ctrl_c(_timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_threads([[1], [2]], lambda _lane, _item: None)
    assert not [each.name for each in threading.enumerate() if "influence" in each.name]
