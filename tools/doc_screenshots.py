"""All pictures of the documentation, light and dark: `python -m tools.doc_screenshots`.

They show the classifier of `examples/shapes.py`: under `midstep run` for the first tutorial, else
attached to midstep. Those of the tutorial on four bugs show its scripts, those of the study of
competing features its demo. With names of pictures only those are made (`hero`,
`first-breakpoint`, `live` with all tabs, `four-bugs`, `runs`, `study` with both conditions).

`study-influence.png` is not made here: its study needs a language model, questions of GSM8K and
40 minutes (`examples/rl/gsm8k_study.py`).
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright
from studies.competitive import panel_screenshots
from tools import four_bugs_screenshots
from tools.demo_process import BROWSER_FLAGS, find_chromium, running_script, running_server
from tools.picture_files import Frame, save_gif, save_png

from midstep.client import Client

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SIZE = {"width": 1280, "height": 720}
GIF_WIDTH = 900
BREAKPOINT = "loss > 2 and step > 100"
PATIENCE_MS = 120_000
SETTLE_MS = 1500
"""Until charts have drawn what has just arrived."""

SHAPES = (ROOT / "examples" / "shapes.py").read_text(encoding="utf-8")
EPOCHS = 10
LOOP = f"""
import sys, time
import midstep

name, rate, delay = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
optimizer.param_groups[0]["lr"] = rate
settings = dict(lr=rate, batch_size=32, seed=torch.initial_seed())
with midstep.attach(
    model, optimizer, loader, loss_fn=loss_fn, name=name, run_name=name, config=settings,
    serve=delay > 0, port=0, start_paused=delay > 0,
) as run:
    for epoch in run.epochs({EPOCHS}):
        right = 0
        for images, labels in loader:
            output = model(images)
            loss = loss_fn(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (output.argmax(1) == labels).sum().item()
            run.log(loss=loss)
            time.sleep(delay)
        run.log(train_accuracy=right / 2000)
"""
RATES, SEEDS = (3e-4, 1e-3, 3e-3), (0, 1)
KEY_SIGN = """words => {
  const id = "doc-key";
  const made = () => document.body.appendChild(document.createElement("div"));
  const sign = document.getElementById(id) ?? made();
  sign.id = id;
  sign.textContent = words;
  sign.style.cssText = "position:fixed;left:31%;bottom:14px;transform:translateX(-50%);z-index:9;" +
    "padding:6px 18px;border-radius:9px;background:#3b5bdb;color:white;font:600 21px system-ui";
}"""
"""Shows below, left of the page's own notices, which key was pressed."""
STEPS_SHOWN = 5
"""Steps that the film may need after the pause."""
EMPTY = "Nothing captured"
"""What a panel says that has nothing to show."""


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

    def run_to(self, step: int) -> None:
        """Run to the first step from here on with a scaled batch."""
        while step in self._broken:
            step += 1
        self.client.run_until(step)
        self.wait_for(step)

    def is_clean(self, steps: int) -> bool:
        """Whether the last batch and so many next ones are all scaled."""
        step = int(self.client.state()["step"])
        return not self._broken & set(range(step, step + steps))

    def has_snapshot(self) -> bool:
        """Whether going back to this step restores a snapshot, without repeating a step."""
        return int(self.client.state()["step"]) in self.client.rewind()["snapshot_steps"]

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

        def take_paused(words: str, seconds: float) -> None:
            page.wait_for_timeout(SETTLE_MS)
            check_chart(page, words)
            take(words, seconds)

        def press(key: str, words: str, seconds: float) -> None:
            page.keyboard.press(key)
            take_paused(words, seconds)
            if page.get_by_text(EMPTY).count():
                raise SystemExit(f"midstep: a panel says {EMPTY!r} after {words!r}")

        training.run_to(30)
        page.wait_for_timeout(SETTLE_MS)
        # After going back to a snapshot there is no repeated step whose batch can be shown. Each
        # step that is made slowly has one, so the pause must be at a step without.
        while not frames or training.has_snapshot() or not training.is_clean(STEPS_SHOWN):
            frames.clear()
            page.keyboard.press("Space")
            for _ in range(3):
                page.wait_for_timeout(250)
                take("the training runs", 0.2)
            page.keyboard.press("Space")
            page.get_by_role("button", name="Resume").wait_for()
        take_paused("Space · pause", 1.0)
        press("ArrowRight", "→ · one step", 0.5)
        press("ArrowLeft", "← · one step back", 0.9)
        press("ArrowRight", "→ · the same step again, bit for bit", 0.9)
        training.client.breakpoints.add("expression", expression=BREAKPOINT)
        take_paused(f"breakpoint: {BREAKPOINT}", 0.9)
        page.keyboard.press("Space")
        for _ in range(2):
            page.wait_for_timeout(250)
            take("Space · continue", 0.2)
        page.get_by_text("Stopped by breakpoint", exact=False).first.wait_for()
        take_paused("stopped: one sample of this batch is broken", 2.0)
    save_gif(frames, IMAGES / f"hero-{scheme}.gif", width=GIF_WIDTH)


def check_chart(page: Page, words: str) -> None:
    """Refuse a picture of a paused run whose loss ends at another step than the header shows."""
    header = re.search(r"Step\s*(\d+)", page.get_by_role("banner").text_content() or "")
    chart = page.get_by_role("img", name=re.compile("^loss over steps"))
    label = chart.get_attribute("aria-label") or ""
    if header is None or not re.search(rf"\bat step {header[1]}\b", label):
        step = header[1] if header else "unknown"
        raise SystemExit(f"midstep: after {words!r} the header is at step {step}, but: {label}")


def make_first_breakpoint(browser: Browser) -> None:
    """The run of the first tutorial, stopped."""
    options = ("--paused", "--break", BREAKPOINT, "--port", "0")
    for scheme in SCHEMES:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "train.py"
            script.write_text(SHAPES, encoding="utf-8")
            with (
                running_script(script, under=("-m", "midstep", "run", *options)) as url,
                Training(url, browser, set()).page(scheme) as page,
            ):
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


def make_attached(make: Callable[[Training, Scheme], None], browser: Browser) -> None:
    """Pictures of the classifier under `attach`, in a run of its own for each theme."""
    for scheme in SCHEMES:
        with tempfile.TemporaryDirectory() as folder:
            script = write_script(Path(folder))
            with running_script(script, "shapes", "0.001", "0.02") as url:
                make(Training(url, browser, broken_steps()), scheme)


def make_runs(browser: Browser) -> None:
    """Finished runs with several learning rates, in a table and over each other."""
    with tempfile.TemporaryDirectory() as folder:
        _make_runs(Path(folder), browser)


def _make_runs(folder: Path, browser: Browser) -> None:
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


def train(script: Path, name: str, rate: float) -> None:
    """Train without a page, to the end."""
    command = [sys.executable, script.name, name, str(rate), "0"]
    subprocess.run(command, cwd=script.parent, check=True, capture_output=True)


@cache
def broken_steps() -> set[int]:
    """The steps whose batch has an unscaled sample; the training does not change the order."""
    names: dict[str, Any] = {}
    exec(SHAPES.partition("for epoch in")[0], names)  # noqa: S102 our own example
    batches = itertools.chain.from_iterable(names["loader"] for _ in range(EPOCHS))
    return {step for step, (images, _) in enumerate(batches, start=1) if images.max() > 10}


def write_script(folder: Path) -> Path:
    """The classifier with the attached loop in place of its own."""
    script = folder / "shapes.py"
    script.write_text(SHAPES.partition("for epoch in")[0] + LOOP, encoding="utf-8")
    return script


PICTURES: dict[str, Callable[[Browser], None]] = {
    "hero": partial(make_attached, make_hero),
    "first-breakpoint": make_first_breakpoint,
    "live": partial(make_attached, make_views),
    "four-bugs": four_bugs_screenshots.take_all,
    "runs": make_runs,
    "study": partial(panel_screenshots.take_all, IMAGES),
}


def main(wanted: list[str]) -> None:
    """Make the wanted pictures, or all."""
    chromium = find_chromium()
    if chromium is None:
        sys.exit(2)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        for name in wanted or PICTURES:
            PICTURES[name](browser)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
