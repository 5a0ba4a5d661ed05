"""What an open page costs a training with large batches, and how pictures are encoded."""

from __future__ import annotations

import io
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from benchmarks.figures import Figure, sandwiched_ratio
from benchmarks.page.bench_forces import CLOSING_S, OPENING_S
from benchmarks.page.page_process import polling, tell
from midstep.core.png import encode_png
from midstep.live import serve
from midstep.session import Run
from midstep.session.hooks import LayerNorms

__all__ = ["figures"]

BATCH = (64, 3, 224, 224)
"""As float32: 38.5 MB."""
STEP_S = 0.03
BLOCKS = 30
PICTURES = 5


class LargeBatches:
    """A loop with large batches and a step of 30 ms: a small convolution, then matrix products."""

    def __init__(self, run: Run) -> None:
        torch.manual_seed(0)
        self._run = run
        self._model = torch.nn.Sequential(
            torch.nn.AvgPool2d(16), torch.nn.Flatten(), torch.nn.Linear(588, 64)
        )
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4)
        self._batches = [torch.rand(BATCH) for _ in range(2)]
        self._square = torch.rand(512, 512)
        self._products = self._count_products()
        run.show(LayerNorms(), model=self._model, optimizer=self._optimizer)

    def _count_products(self) -> int:
        """How many matrix products fill a step.

        A fixed number, not products until 30 ms are over: then a capture would take the time of
        products, and would seem to cost nothing.
        """
        self._work(20)
        begun = time.perf_counter()
        self._work(100)
        return max(1, round(100 * STEP_S / (time.perf_counter() - begun)))

    def _work(self, products: int) -> None:
        for _ in range(products):
            self._square @ self._square

    def train(self) -> None:
        """Train until the run is stopped."""
        controller = self._run.controller
        going, step = controller.boundary.enter(), 0
        while going:
            # A batch of its own in each step, as a loader makes it.
            batch = self._batches[step % 2]
            loss = self._model(batch).square().mean()
            self._optimizer.zero_grad()
            loss.backward()
            controller.capture_batch(batch, loss, labels=torch.arange(BATCH[0]))
            self._optimizer.step()
            self._run.log(loss=loss.detach())
            self._work(self._products)
            step += 1
            going = controller.wait_if_paused()


@contextmanager
def training(run: Run) -> Iterator[None]:
    """The loop in a thread of its own, until the block ends."""
    thread = threading.Thread(target=LargeBatches(run).train, name="training")
    thread.start()
    try:
        yield
    finally:
        run.controller.stop()
        thread.join()


def whole_steps_time(run: Run) -> float:
    """Seconds a step takes over about a second, from the end of one step to the end of another.

    Steps counted in a block of fixed length would be exact to one in 33 only.
    """
    boundary = run.controller.boundary
    first, begun = _next_step(boundary.finished_steps, run)
    last, ended = _next_step(first + round(1.0 / STEP_S), run)
    return (ended - begun) / (last - first)


def _next_step(after: int, run: Run) -> tuple[int, float]:
    """The first finished step above `after`, and when it was seen, to half a millisecond."""
    while (step := run.controller.boundary.finished_steps) <= after:
        time.sleep(0.0005)
    return step, time.perf_counter()


def large_batches() -> Figure:
    """Steps with a batch of 38.5 MB while a page shows batch and layers, against bare ones."""
    torch.set_num_threads(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0, save_dir=folder) as page,
        polling(str(page.url), "step", "layers") as child,
        training(run),
    ):

        def bare() -> float:
            return whole_steps_time(run)

        def watched() -> float:
            tell(child, "on")
            time.sleep(OPENING_S)
            spent = whole_steps_time(run)
            tell(child, "off")
            time.sleep(CLOSING_S)
            return spent

        ratio = sandwiched_ratio(bare, watched, times=BLOCKS)
    value, low, high = (100 * (each - 1) for each in ratio)
    return Figure(
        name="batches of 38.5 MB, steps of 30 ms, the page open at its step tab: overhead",
        value=value,
        low=low,
        high=high,
        unit="%",
        bar=8.0,
        note="batch (64 tiles), loss and layers in view, read once a second",
    )


def photograph() -> np.ndarray:
    """A sheet of 64 tiles with the statistics of photographs: smooth, with some noise."""
    chance = np.random.default_rng(0)
    coarse = chance.random((40, 160, 3))
    smooth = np.kron(coarse, np.ones((8, 8, 1)))[: 4 * 75, : 16 * 75]
    return (255 * np.clip(smooth + 0.03 * chance.standard_normal(smooth.shape), 0, 1)).astype(
        np.uint8
    )


def pictures() -> list[Figure]:
    """Our encoder and Pillow's, on the sheet of 64 tiles of 75 x 75 in colour."""
    pixels = photograph()
    encoders: dict[str, Callable[[], bytes]] = {
        "zlib, no filter": lambda: encode_png(pixels),
        "zlib, lines by numpy": lambda: encode_png(pixels, filtered=True),
    }
    try:
        from PIL import Image
    except ImportError:
        pass
    else:

        def pillow(level: int) -> bytes:
            held = io.BytesIO()
            Image.fromarray(pixels).save(held, "png", compress_level=level)
            return held.getvalue()

        encoders["Pillow, level 1"] = lambda: pillow(1)
    return [_encoded(name, encode) for name, encode in encoders.items()]


def _encoded(name: str, encode: Callable[[], bytes]) -> Figure:
    spent = []
    for _ in range(PICTURES):
        begun = time.perf_counter()
        data = encode()
        spent.append(1000 * (time.perf_counter() - begun))
    return Figure(
        name=f"picture of 64 tiles, {name}",
        value=statistics.median(spent),
        low=min(spent),
        high=max(spent),
        unit="ms",
        note=f"{len(data) / 1000:.0f} kB",
    )


def figures() -> list[Figure]:
    """All figures of this module."""
    return [large_batches(), *pictures()]
