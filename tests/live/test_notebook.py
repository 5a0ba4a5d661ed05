"""Runs in a real Jupyter kernel: shown without a token, and gone with its kernel."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from midstep.facts import end_state

jupyter = pytest.importorskip("jupyter_client", reason="pip install ipykernel jupyter_client")
pytest.importorskip("ipykernel")

PATIENCE_S = 120.0

START = """
import midstep, torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(32, 8), batch_size=8)
run = midstep.attach(
    model, optimizer, loader, serve=True, port=0, run_name="cells", resume="auto"
).start()
"""
TRAIN = """
for epoch in run.epochs(5):
    for x in loader:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log(loss=loss)
    if epoch == 1:
        break  # a notebook looks at the run in between
"""


class Kernel:
    """A kernel and what its cells gave."""

    def __init__(self, folder: Path) -> None:
        self.manager = jupyter.KernelManager(kernel_name="python3")
        self.manager.kernel_spec.argv[0] = sys.executable
        self.manager.start_kernel(cwd=str(folder))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def run(self, code: str) -> list[dict[str, Any]]:
        """Run a cell; returns the contents that a notebook would store."""
        outputs: list[dict[str, Any]] = []
        reply = self.client.execute_interactive(
            code, timeout=PATIENCE_S, output_hook=lambda message: outputs.append(message["content"])
        )
        assert reply["content"]["status"] == "ok", outputs
        return outputs

    def restart(self, *, now: bool) -> None:
        self.manager.restart_kernel(now=now)
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    started = Kernel(tmp_path)
    yield started
    started.close()


def shown(outputs: list[dict[str, Any]]) -> dict[str, str]:
    """What the cell displayed as its result."""
    (data,) = [each["data"] for each in outputs if "data" in each]
    return data


def test_a_run_displays_itself_without_its_token_and_a_restart_of_the_kernel_does_not_hang(
    kernel: Kernel, tmp_path: Path
) -> None:
    stored = kernel.run(START)
    stored += kernel.run(TRAIN)
    stored += (result := kernel.run("run"))
    text, html = (shown(result)[kind] for kind in ("text/plain", "text/html"))
    assert re.search(r"running · step 8 of 20 · epoch \d of 5 · loss [\d.e+-]+ · outputs", text)
    assert "http://127.0.0.1:" in html
    assert "<iframe" not in html
    # A notebook stores what its cells print and display, and people share notebooks.
    token = kernel.run("run.url.partition('=')[2]")
    secret = shown(token)["text/plain"].strip("'")
    assert len(secret) > 20
    assert secret not in repr(stored)
    assert "run.open_page()" in repr(stored)

    # The kernel restarts, and later is killed, while a cell is paused in the training.
    lease = tmp_path / "outputs/runs/cells/lease.json"
    for is_killed in (False, True):
        kernel.run("run.controller.pause()")
        kernel.client.execute(TRAIN)
        deadline = time.monotonic() + PATIENCE_S
        while '"paused"' not in lease.read_text():
            assert time.monotonic() < deadline, "the run did not pause"
            time.sleep(0.05)
        kernel.restart(now=is_killed)
        assert end_state(lease.parent).state in ({"killed"} if is_killed else {"stopped", "killed"})
        assert "continues at step" in repr(kernel.run(START))
    kernel.run("run.close()")
    ended = shown(kernel.run("run"))
    assert "finished" in ended["text/plain"]
    assert "http://" not in ended["text/html"]
