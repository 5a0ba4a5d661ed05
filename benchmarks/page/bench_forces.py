"""What it costs to look at forces: the demo's steps with a page open, and large matrices."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from tools.demo_process import find_chromium

from benchmarks.figures import Figure, sandwiched_ratio
from benchmarks.page.idle_browser import browser
from benchmarks.page.page_process import polling, tell
from midstep.live import serve
from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import BclConfig, Condition
from midstep.server.step_views.cosine_matrix import cluster_order, similarity, unit_rows
from midstep.session import Run

__all__ = ["figures"]

BLOCK_S = 1.0
"""As long as the page's beat, so that each block holds all that is asked in one."""
OPENING_S = 0.3
"""After the page is opened: the bar is on one that is open, not on opening it."""
CLOSING_S = 0.1
"""After it is closed, likewise."""
BLOCKS = 100
"""With the page open: a difference of a few per cent needs many."""
BROWSER_BLOCK_S = 2.0
BROWSER_OPENING_S = 2.0
BROWSER_CLOSING_S = 0.7
BROWSER_BLOCKS = 60
ROWS = 2048


@contextmanager
def training(run: Run, condition: Condition) -> Iterator[None]:
    """The demo as it runs, in a thread of its own, until the block ends."""
    made = BclTraining(BclConfig(condition=condition, steps=10**8, health_every=10**8))
    thread = threading.Thread(target=made.train, args=(run,), name="training")
    thread.start()
    try:
        yield
    finally:
        run.controller.stop()
        thread.join()


def step_time(run: Run, block_s: float = BLOCK_S) -> tuple[float, float]:
    """Seconds a step takes over one block: by the clock, and of this process's CPU."""
    first, begun, spent = (
        run.controller.boundary.finished_steps,
        time.perf_counter(),
        time.process_time(),
    )
    time.sleep(block_s)
    steps = max(1, run.controller.boundary.finished_steps - first)
    return (time.perf_counter() - begun) / steps, (time.process_time() - spent) / steps


def more_cpu(bare: list[tuple[float, float]], watched: list[tuple[float, float]]) -> float:
    """Seconds of CPU that watching takes in each second.

    Most of it goes by the clock and not by the step, so it holds on a machine with other work
    too, where the share of a step is larger the fewer steps there are.
    """
    plain = statistics.median(own for _, own in bare)
    return statistics.median((own - plain) / clock for clock, own in watched)


def overhead(name: str, ratio: tuple[float, float, float], note: str) -> Figure:
    """What an open page adds to a step, from the ratio to a bare one."""
    value, low, high = (100 * (each - 1) for each in ratio)
    return Figure(
        name=f"{name}: overhead", value=value, low=low, high=high, unit="%", bar=5.0, note=note
    )


def page_open(condition: Condition, tab: str) -> Figure:
    """Steps of the demo while a page is open that subscribes and reads, against bare ones."""
    torch.set_num_threads(1)
    bare_steps: list[tuple[float, float]] = []
    watched_steps: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0, save_dir=folder) as page,
        polling(str(page.url), tab, condition) as child,
        training(run, condition),
    ):

        def bare() -> float:
            bare_steps.append(step_time(run))
            return bare_steps[-1][0]

        def watched() -> float:
            tell(child, "on")
            time.sleep(OPENING_S)
            watched_steps.append(step_time(run))
            tell(child, "off")
            time.sleep(CLOSING_S)
            return watched_steps[-1][0]

        ratio = sandwiched_ratio(bare, watched, times=BLOCKS)
    cost = more_cpu(bare_steps, watched_steps)
    return overhead(
        f"demo ({condition}), the page open at its {tab} tab",
        ratio,
        note="subscribed and read once a second, stream open; "
        f"{1000 * cost:.2g} ms of CPU a second, server included",
    )


def browser_open(chromium: str, condition: Condition, tab: str) -> Figure:
    """Steps of the demo with the page open in a browser on the same cores, against bare ones."""
    torch.set_num_threads(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0, save_dir=folder) as page,
        browser(chromium) as window,
        training(run, condition),
    ):

        def bare() -> float:
            return step_time(run, BROWSER_BLOCK_S)[0]

        def watched() -> float:
            window.open(str(page.url).replace("/#", f"/live?tab={tab}#"))
            time.sleep(BROWSER_OPENING_S)
            spent = step_time(run, BROWSER_BLOCK_S)[0]
            window.close()
            time.sleep(BROWSER_CLOSING_S)
            return spent

        ratio = sandwiched_ratio(bare, watched, times=BROWSER_BLOCKS)
    return overhead(
        f"demo ({condition}), Chromium at the {tab} tab on the same cores",
        ratio,
        note="what the browser itself takes included",
    )


def matrix() -> list[Figure]:
    """All pairs of 2,048 rows, as the reader's thread computes them."""
    rows = np.random.default_rng(0).standard_normal((ROWS, 784))
    times: dict[str, list[float]] = {"averaged": [], "whole": [], "clustered": []}
    for _ in range(5):
        for name, work in (
            ("averaged", lambda: similarity(unit_rows(rows), cells=512)),
            ("whole", lambda: similarity(unit_rows(rows), cells=ROWS)),
            ("clustered", lambda: cluster_order(unit_rows(rows))),
        ):
            begun = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begun)
    return [
        Figure(
            name=f"cosines of {ROWS:,} rows of 784, {name}",
            value=statistics.median(spent),
            low=min(spent),
            high=max(spent),
            unit="s",
        )
        for name, spent in times.items()
    ]


def figures() -> list[Figure]:
    """The page open on two conditions and at two tabs, in a browser too, and the matrix."""
    conditions: tuple[Condition, ...] = ("novelty", "control")
    tabs = ("step", "charts", "features", "panels")
    open_pages = [page_open(each, tab) for each in conditions for tab in tabs]
    chromium = find_chromium()
    if chromium is None:
        return [*open_pages, *matrix()]
    return [*open_pages, *(browser_open(chromium, "control", tab) for tab in tabs), *matrix()]
