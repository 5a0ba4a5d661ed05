"""All pictures of the documentation, light and dark: `python -m tools.doc_screenshots`.

They show the classifier of `examples/shapes.py`, attached to midstep; those of the tutorial on
four bugs show its scripts. With names of pictures only
those are made (`hero`, `first-breakpoint`, `live` with all tabs, `four-bugs`, `runs`).
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright
from tools import four_bugs_screenshots
from tools.demo_process import BROWSER_FLAGS, find_chromium, running_script, running_server
from tools.picture_files import Frame, save_gif, save_png

from midstep.client import Client

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SIZE = {"width": 1280, "height": 720}
PATIENCE_MS = 120_000
SETTLE_MS = 1500
"""Until charts have drawn what has just arrived."""

SHAPES = (ROOT / "examples" / "shapes.py").read_text(encoding="utf-8")
LOOP = """
import json, sys, time
from pathlib import Path
import midstep

name, rate, delay = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
optimizer.param_groups[0]["lr"] = rate
settings = {"lr": rate, "batch_size": 32, "seed": torch.initial_seed()}
with midstep.attach(
    model, optimizer, loader, loss_fn=loss_fn, name=name, run_name=name, config=settings,
    serve=delay > 0, port=0, start_paused=delay > 0,
) as run:
    broken = []
    for epoch in run.epochs(10):
        right = 0
        for images, labels in loader:
            output = model(images)
            loss = loss_fn(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if images.max() > 10:
                broken.append(run.step + 1)
            right += (output.argmax(1) == labels).sum().item()
            run.log(loss=loss)
            time.sleep(delay)
        run.log(train_accuracy=right / 2000)
if delay == 0:
    Path("broken.json").write_text(json.dumps(broken))
"""
RATES, SEEDS = (3e-4, 1e-3, 3e-3), (0, 1)
KEY_SIGN = """words => {
  const id = "doc-key";
  const made = () => document.body.appendChild(document.createElement("div"));
  const sign = document.getElementById(id) ?? made();
  sign.id = id;
  sign.textContent = words;
  sign.style.cssText = "position:fixed;left:50%;top:100px;transform:translateX(-50%);z-index:9;" +
    "padding:4px 14px;border-radius:8px;background:#3b5bdb;color:white;font:600 15px system-ui";
  sign.hidden = words === "";
}"""
"""Shows above the page which key was pressed."""


class Training:
    """A training that is paused at step 0, with a client and a browser for its page.

    Args:
        url: of its page.
        browser: that looks at it.
        broken: the steps whose batch has an unscaled sample.
    """

    def __init__(self, url: str, browser: Browser, broken: set[int]) -> None:
        base, _, token = url.partition("/#token=")
        self.url, self.client, self._browser = url, Client(base, token=token), browser
        self._broken = broken

    @contextmanager
    def page(self, scheme: Scheme) -> Iterator[Page]:
        """Its Live page, while the block runs."""
        page = self._browser.new_page(viewport=SIZE, color_scheme=scheme)
        page.set_default_timeout(PATIENCE_MS)
        page.goto(self.url.replace("/#", "/live#"))
        page.get_by_text("Paused").first.wait_for()
        yield page
        page.close()

    def run_to(self, step: int, *, scaled_steps: int = 1) -> None:
        """Run to the first step from here on with so many scaled batches in a row."""
        while self._broken & set(range(step, step + scaled_steps)):
            step += 1
        self.client.run_until(step)
        self.wait_for(step)

    def pause(self) -> int:
        """Pause, and return the number of finished steps."""
        return int(self.client.pause()["step"])

    def wait_for(self, step: int) -> None:
        """Wait until the run is paused at this step."""
        while (state := self.client.state())["step"] < step or not state["parked"]:
            time.sleep(0.2)


def make_hero(training: Training, scheme: Scheme) -> None:
    """Pause, step, step, back, breakpoint."""
    frames: list[Frame] = []
    with training.page(scheme) as page:

        def take(words: str, seconds: float) -> None:
            page.evaluate(KEY_SIGN, words)
            frames.append(Frame(png=page.screenshot(), seconds=seconds))

        training.run_to(50)
        page.wait_for_timeout(SETTLE_MS)
        training.client.resume()
        for _ in range(3):
            page.wait_for_timeout(250)
            take("the training runs", 0.5)
        training.run_to(training.pause() + 1, scaled_steps=3)
        page.wait_for_timeout(SETTLE_MS)
        take("Space · pause", 1.4)
        for _ in range(2):
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(SETTLE_MS)
            take("→ · one step", 1.0)
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(SETTLE_MS)
        take("← · one step back", 1.2)
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(SETTLE_MS)
        take("→ · the same step again, bit for bit", 1.6)
        training.client.breakpoints.add("expression", expression="loss > 2 and step > 100")
        page.wait_for_timeout(SETTLE_MS)
        take("breakpoint: loss > 2 and step > 100", 1.6)
        page.keyboard.press("Space")
        for _ in range(3):
            page.wait_for_timeout(250)
            take("Space · continue", 0.4)
        page.get_by_text("Stopped by breakpoint", exact=False).first.wait_for()
        page.wait_for_timeout(SETTLE_MS)
        take("stopped at the step whose batch has a broken sample", 3.0)
    save_gif(frames, IMAGES / f"hero-{scheme}.gif")


def make_first_breakpoint(training: Training, scheme: Scheme) -> None:
    """The run of the first tutorial, stopped."""
    training.client.breakpoints.add("expression", expression="loss > 2 and step > 100")
    with training.page(scheme) as page:
        page.keyboard.press("Space")
        page.get_by_text("Stopped by breakpoint", exact=False).first.wait_for()
        page.wait_for_timeout(SETTLE_MS)
        save_png(page.screenshot(), IMAGES / f"first-breakpoint-{scheme}.png")


def make_views(training: Training, scheme: Scheme) -> None:
    """The tabs of the Live page, late in the training."""
    training.client.watches.replace(3, 8, 11)
    training.client.breakpoints.add("loss_z", limit=4.0, window=200, action="mark")
    training.client.breakpoints.add_rule("nonfinite_layer")
    with training.page(scheme) as page:  # what a page shows is captured
        page.wait_for_timeout(SETTLE_MS)
        training.run_to(240)
        page.wait_for_timeout(SETTLE_MS)
        save_png(page.screenshot(), IMAGES / f"live-{scheme}.png")
        for tab in ("charts", "features"):
            page.get_by_role("tab", name=re.compile(f"^{tab}", re.IGNORECASE)).click()
            page.wait_for_timeout(2 * SETTLE_MS)
            save_png(page.screenshot(), IMAGES / f"{tab}-{scheme}.png")


PICTURES: dict[str, Callable[[Training, Scheme], None]] = {
    "hero": make_hero,
    "first-breakpoint": make_first_breakpoint,
    "live": make_views,
}


def make_runs(folder: Path, browser: Browser) -> None:
    """Finished runs with several learning rates, in a table and over each other."""
    script = write_script(folder)
    mended = re.sub(r"    images\[::200\].*\n", "", script.read_text(encoding="utf-8"))
    for seed, rate in itertools.product(SEEDS, RATES):
        script.write_text(mended.replace("manual_seed(0)", f"manual_seed({seed})"))
        train(script, f"shapes-{rate}-{seed}", rate)
    with running_server(folder / "outputs", folder / "server.log", "--port", "0") as url:
        for scheme in SCHEMES:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(url.replace("/#", "/runs?group=config.lr&smooth=0.9#"))
            page.get_by_text("shapes-0.003-1").first.wait_for()
            page.wait_for_timeout(3 * SETTLE_MS)
            save_png(page.screenshot(), IMAGES / f"runs-{scheme}.png")
            page.close()


def train(script: Path, name: str, rate: float) -> set[int]:
    """Train without a page, to the end; returns the steps with a broken batch."""
    command = [sys.executable, script.name, name, str(rate), "0"]
    subprocess.run(command, cwd=script.parent, check=True, capture_output=True)
    return set(json.loads(script.with_name("broken.json").read_text()))


def write_script(folder: Path) -> Path:
    """The classifier with the attached loop in place of its own."""
    script = folder / "shapes.py"
    script.write_text(SHAPES.partition("for epoch in")[0] + LOOP, encoding="utf-8")
    return script


def main(wanted: list[str]) -> None:
    """Make the wanted pictures, or all."""
    chromium = find_chromium()
    if chromium is None:
        sys.exit(2)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        for name, make in PICTURES.items():
            for scheme in SCHEMES if not wanted or name in wanted else ():
                with tempfile.TemporaryDirectory() as folder:
                    script = write_script(Path(folder))
                    broken = train(script, "scan", 1e-3)
                    with running_script(script, "shapes", "0.001", "0.02") as url:
                        make(Training(url, browser, broken), scheme)
        if not wanted or "four-bugs" in wanted:
            four_bugs_screenshots.take_all(browser)
        if not wanted or "runs" in wanted:
            with tempfile.TemporaryDirectory() as folder:
                make_runs(Path(folder), browser)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
