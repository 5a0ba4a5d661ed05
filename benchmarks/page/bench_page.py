"""The page in a real browser: from a click on Step to the new picture."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from tools.demo_process import BROWSER_FLAGS, find_chromium, running_demo

from benchmarks.figures import Figure, percentile
from midstep.live import serve
from midstep.session import Run

__all__ = ["figures"]

CLICK_TO_PICTURE = """async () => {
  const canvas = document.querySelector('section canvas');
  const button = [...document.querySelectorAll('button')]
    .find((each) => each.innerText.startsWith('Step'));
  const before = canvas.toDataURL();
  const now = () => performance.timeOrigin + performance.now();
  const begun = now();
  button.click();
  while (canvas.toDataURL() === before) await new Promise(requestAnimationFrame);
  return [begun, now()];
}"""
"""The times of the click and of the picture, in milliseconds since 1970."""


def step_click_to_picture(clicks: int = 40) -> list[Figure]:
    """Milliseconds from the click to other pixels in the batch grid."""
    chromium = find_chromium()
    if chromium is None:
        return []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_demo(Path(folder), "--start-paused", "--port", "0") as url,
    ):
        waits = [drawn - clicked for clicked, drawn in _click(chromium, url, clicks)]
    return [
        Figure(
            name="step click to picture, p95 (browser)",
            value=percentile(waits, 0.95),
            unit="ms",
            low=min(waits),
            high=max(waits),
            note=f"median {statistics.median(waits):.3g} ms",
        )
    ]


def _click(chromium: str, url: str, clicks: int) -> list[tuple[float, float]]:
    """Step by hand; the times of each click and its picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(url)
        page.get_by_role("button", name="Step", exact=True).first.click()
        page.locator("section canvas").first.wait_for()
        page.wait_for_timeout(500)
        times = []
        for _ in range(clicks):
            clicked, drawn = page.evaluate(CLICK_TO_PICTURE)
            times.append((float(clicked), float(drawn)))
            page.wait_for_timeout(100)
        browser.close()
    return times


LARGE_BATCH = (256, 3, 224, 224)
"""As float32: 154 MB."""


def _train_large_batches(run: Run, ends: list[float]) -> None:
    """Steps of a small model on large batches, until the run is stopped; notes when each ends."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.AvgPool2d(32), torch.nn.Flatten(), torch.nn.Linear(147, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = [torch.rand(LARGE_BATCH) for _ in range(2)]
    controller, step = run.controller, 0
    controller.pause()
    going = controller.boundary.enter()
    while going:
        batch = batches[step % 2]
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        controller.capture_batch(batch, loss, labels=torch.arange(LARGE_BATCH[0]))
        optimizer.step()
        run.log(loss=loss.detach())
        ends.append(1000 * time.time())
        step += 1
        going = controller.wait_if_paused()


@contextmanager
def _large_batches(ends: list[float]) -> Iterator[str]:
    """The address of the page of a paused run with large batches."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0, save_dir=folder) as page,
    ):
        thread = threading.Thread(target=_train_large_batches, args=(run, ends), name="training")
        thread.start()
        try:
            yield str(page.url)
        finally:
            run.controller.stop()
            thread.join()


def large_step_to_picture(clicks: int = 60) -> list[Figure]:
    """Milliseconds from the end of a step to the picture of its batch of 154 MB."""
    chromium = find_chromium()
    if chromium is None:
        return []
    ends: list[float] = []
    with _large_batches(ends) as url:
        times = _click(chromium, url, clicks)
    # The first click of `_click` shows the canvas; it is not among the times.
    waits = [drawn - end for (_, drawn), end in zip(times, ends[1:], strict=True)]
    whole = statistics.median(drawn - clicked for clicked, drawn in times)
    return [
        Figure(
            name="batches of 154 MB: end of a step to its picture, p95 (browser)",
            value=percentile(waits, 0.95),
            unit="ms",
            low=min(waits),
            high=max(waits),
            bar=300.0,
            note=f"median {statistics.median(waits):.3g} ms; from the click {whole:.3g} ms",
        )
    ]


def figures() -> list[Figure]:
    """All figures of this module."""
    return [*step_click_to_picture(), *large_step_to_picture()]
