"""The page says true things of a GAN, of a run that went back, and of runs that have ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import midstep
from midstep.control import Command, DebugController
from midstep.facts import FactsReader
from midstep.server.root_server import RootServer, RootServerConfig
from tests.checkers.neutral import wait_until
from tests.live.kept_trainings import STOP
from tests.live.stopped import ImageLoop, stopped
from tests.live.test_attach import parked_at
from tests.live.test_kept_runs import ended_by_signal, train_in_a_loop
from tests.live.test_true_statements import Gan
from tests.live.trainer import in_thread

pytestmark = pytest.mark.browser


def fact(page: Page, label: str) -> Locator:
    """The value in the top bar beside this label."""
    return page.get_by_role("banner").get_by_text(label, exact=True).locator("xpath=..")


def test_a_gan_has_no_still_layer_and_its_header_goes_back_with_it(
    tmp_path: Path, page: Page
) -> None:
    gan, control = Gan(), DebugController()
    run = midstep.attach(
        {"G": gan.generator, "D": gan.discriminator},
        {"G": gan.opt_g, "D": gan.opt_d},
        gan.loader,
        save_dir=tmp_path,
        controller=control,
        serve=True,
        port=0,
        start_paused=True,
    )

    def train() -> None:
        for _ in gan.train(run):
            if run.step == 4:
                gan.opt_g.param_groups[0]["lr"] *= 3

    with in_thread(run, lambda _: train()):
        wait_until(control, parked_at(0))
        page.goto(str(run.url))
        expect(page.get_by_role("banner")).to_contain_text(re.compile(r"Step\s*0"))
        losses: list[str] = []
        for step in (3, 7):
            control.submit(Command(name="run_until", payload={"step": step})).result(30)
            wait_until(control, parked_at(step))
            expect(page.get_by_role("banner")).to_contain_text(re.compile(rf"Step\s*{step}"))
            series = FactsReader(run.dir).series(["loss_d"])["loss_d"]
            assert series.step[-1] == step
            losses.append(f"{series.low[-1]:.3f}")
            expect(fact(page, "loss_d")).to_contain_text(losses[-1])
        expect(fact(page, "lr")).to_contain_text("6.0e−3")
        layers = page.get_by_role("region", name="Layers")
        expect(layers.get_by_text("D.0.weight")).to_be_visible()
        expect(layers.get_by_text("Usual").first).to_be_visible()
        expect(layers.get_by_text("Still")).to_have_count(0)

        control.submit(Command(name="back", payload={"step": 3})).result(30)
        expect(page.get_by_role("banner")).to_contain_text(re.compile(r"Step\s*3"))
        expect(fact(page, "loss_d")).to_contain_text(losses[0])
        expect(fact(page, "lr")).to_contain_text("2.0e−3")
        chart = page.get_by_role("img", name=re.compile("^loss_d over steps: 3 points"))
        expect(chart).to_have_attribute("aria-label", re.compile("Pale: 4 points"))
        control.stop()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RootServer]:
    """A failed run, a killed run, and one that was ended at a batch with NaN."""
    folder = tmp_path_factory.mktemp("outputs") / "runs"
    folder.mkdir()
    train_in_a_loop(folder, "failed", {}, error_at=9)
    assert ended_by_signal(folder, "killed", signal.SIGKILL) == -signal.SIGKILL
    loop = ImageLoop()
    run = midstep.attach(*loop.parts, save_dir=folder, name="culprit", run_name="culprit")
    with stopped(run, loop.train):
        run.controller.stop()
    with RootServer(RootServerConfig(outputs=folder.parent, port=0)) as server:
        yield server


def open_ended(page: Page, server: RootServer, name: str) -> None:
    page.goto(server.url.replace("/#", "/runs#"))
    link = page.get_by_role("link", name=name, exact=True).first
    run_id = (link.get_attribute("href") or "").rpartition("/")[2]
    page.goto(server.url.replace("/#", f"/live?run={run_id}#"))
    expect(page.get_by_role("region", name="Batch", exact=False).first).to_be_visible()


def test_a_failed_and_a_killed_run_show_what_is_left_and_a_stop_opens(
    page: Page, ended: RootServer
) -> None:
    open_ended(page, ended, "failed")
    pill = page.get_by_role("status").filter(has_text="ValueError at step 9")
    expect(pill).to_contain_text("a bad batch")
    console = page.get_by_role("log", name="Console of the run")
    expect(console).to_contain_text("ValueError: a bad batch")
    stops = page.get_by_role("region", name="Breakpoints")
    stops.get_by_role("button", name=re.compile(rf"^{STOP}\b")).click()
    stops.get_by_role("button", name=f"Show {STOP}").click()
    expect(page.get_by_text(f"of step {STOP}", exact=False).first).to_be_visible()
    assert f"stop={STOP}" in page.url

    open_ended(page, ended, "killed")
    killed = page.get_by_role("status").filter(has_text="Killed at step")
    expect(killed).to_contain_text("it left no end record")
    expect(console).to_contain_text("epoch 0 is over")


def test_a_change_of_an_ended_run_leads_to_its_step(page: Page, ended: RootServer) -> None:
    open_ended(page, ended, "culprit")
    page.get_by_role("radio", name="Changes").click()
    changes = page.get_by_role("grid", name="What changed")
    changes.get_by_role("row", name=re.compile("Gradient norm")).click()
    assert "at=5" in page.url
    assert "zoom=0-15" in page.url
