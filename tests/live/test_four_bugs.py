"""The four planted bugs of `four-bugs.md`: each stop names its cause, with no further command."""

from __future__ import annotations

import re
import runpy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from midstep.client import Client
from midstep.core.errors import ClientError

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "four_bugs"
TUTORIAL = ROOT / "docs" / "tutorials" / "four-bugs.md"
PATIENCE_S = 120.0


@dataclass
class Script:
    """A script that runs in a thread of its own, and what it left."""

    client: Client
    variables: dict[str, Any] = field(default_factory=dict)

    def stopped(self) -> dict[str, Any]:
        """The state, once the run is parked and its cause was looked for."""
        return wait_for(self._state_with_cause)

    def _state_with_cause(self) -> dict[str, Any] | None:
        state = self.client.state()
        return state if (state["breakpoint"] or {}).get("title") is not None else None

    @property
    def diagnosis(self) -> dict[str, Any]:
        return dict(self.client.why()["diagnosis"])


def wait_for(read: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while (value := read()) is None:
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)
    return value


def find_client() -> Client | None:
    try:
        return Client.find()
    except ClientError:
        return None


@contextmanager
def running(name: str) -> Iterator[Script]:
    """A script of the tutorial as it stands, until the block ends."""
    left: dict[str, Any] = {}

    def run() -> None:
        left.update(runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__"))

    thread = threading.Thread(target=run, name="script")
    thread.start()
    script = Script(wait_for(find_client), left)
    try:
        yield script
    finally:
        script.client.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said_in_the_tutorial(words: str) -> bool:
    return words in " ".join(TUTORIAL.read_text(encoding="utf-8").split())


def test_the_tutorial_shows_lines_of_its_scripts_and_their_pictures() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*)\n```", text)
    scripts = [path.read_text(encoding="utf-8") for path in SCRIPTS.glob("*.py")]
    assert len(shown) == len(scripts) == 4
    for line in shown:
        assert any(f"    {line}\n" in script for script in scripts), line
    for name in re.findall(r"\(\.\./images/(\S+)\)", text):
        assert (ROOT / "docs" / "images" / name).stat().st_size <= 200_000


def test_a_rate_that_jumps_is_named_with_value_and_step() -> None:
    with running("rate_jump") as script:
        evidence = script.stopped()["breakpoint"]
        assert evidence["cause"] == "Learning rate 0.02 → 1.6 (× 80) at step 300"
        assert evidence["title"].startswith("Loss rose to ")
        first = script.diagnosis["changes"][0]
        assert (first["what"], first["step"], first["is_cause"]) == ("Learning rate", 300, True)
        # Neither is measured in every step, and no rule asked for them.
        assert {"grad_norm", "dead"} <= {each["key"] for each in script.diagnosis["changes"]}
    assert said_in_the_tutorial(evidence["cause"])


def test_dead_units_are_named_with_layer_and_count() -> None:
    with running("dead_relu") as script:
        evidence = script.stopped()["breakpoint"]
        assert evidence["title"] == "Dead ReLUs."
        assert evidence["cause"] == "Dead units of relu2: 48 of 64 units (75 %) at step 10"
        assert (evidence["layer"], evidence["step"]) == ("relu2", 20)
    assert said_in_the_tutorial(evidence["cause"])


def test_the_sample_with_nan_is_named() -> None:
    with running("nan_sample") as script:
        evidence = script.stopped()["breakpoint"]
        assert evidence["title"] == "Loss is NaN."
        assert evidence["cause"] == "First non-finite: input of sample 1,234 → conv1 output"
        assert evidence["samples"] == [1234]
        (bad,) = script.diagnosis["inputs"]
        assert (bad["where"], bad["what"]) == ("rows 12 to 15", "all NaN")
    assert said_in_the_tutorial(evidence["cause"])


def test_wrong_labels_rank_high_in_the_shown_batch() -> None:
    with running("wrong_labels") as script:
        evidence = script.stopped()["breakpoint"]
        batch = script.client.batch()
    wrong = set(script.variables["wrong"].tolist())
    by_loss = sorted(
        zip(batch["losses"], batch["sample_ids"], strict=True), key=lambda pair: -pair[0]
    )
    ranks = [rank for rank, (_, sample) in enumerate(by_loss, 1) if sample in wrong]
    assert len(ranks) >= 2
    assert sum(ranks) / len(ranks) <= 0.1 * len(by_loss), "they are the first by loss"
    # The stop itself points out samples; most of them have a wrong label.
    assert len(wrong.intersection(evidence["samples"])) > len(evidence["samples"]) / 2
    assert "carry" in evidence["note"]
