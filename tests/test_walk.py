"""How many modules of midstep a step walks through: few enough to be read in one sitting.

The walk of a batch in `docs/architecture.md` names each of them.

The training thread alone is traced, on the CPU, without loader workers and with no viewer.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

import midstep
from midstep.live import attach
from midstep.session import Session, SessionConfig
from tests.live.trainer import Plain

ATTACH_BAR = 22
SESSION_BAR = 24
"""At most so many modules in at least half of the steps."""

FIRST, TRACED = 20, 60
"""Steps before the trace, which warm everything up, and steps in it."""
STEPS = FIRST + TRACED + 2
ATTEMPTS = 4

PACKAGE = Path(midstep.__path__[0])
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
WALK = "## The walk of one batch"


class Walk:
    """Counts in how many of the traced steps each module was entered; `step_ended` after each."""

    def __init__(self) -> None:
        self.steps = 0
        self.visits: Counter[str] = Counter()
        self._entered: set[str] = set()

    def step_ended(self) -> None:
        self.steps += 1
        if FIRST < self.steps <= FIRST + TRACED:
            self.visits.update(self._entered)
        self._entered.clear()

    def modules(self) -> list[str]:
        """Those of midstep that were entered in at least half of the steps."""
        assert self.steps >= FIRST + TRACED
        names = [name for name, count in self.visits.items() if 2 * count >= TRACED]
        paths = [Path(name) for name in names]
        return sorted(str(path.relative_to(PACKAGE)) for path in paths if PACKAGE in path.parents)

    @contextmanager
    def traced(self) -> Iterator[None]:
        def enter(frame: FrameType, event: str, _argument: Any) -> None:
            if event == "call":
                self._entered.add(frame.f_code.co_filename)

        sys.setprofile(enter)
        try:
            yield
        finally:
            sys.setprofile(None)


def listed(modules: list[str]) -> str:
    return "\n".join([f"{len(modules)} modules:", *modules])


def fewest(walks: Iterable[list[str]], bar: int) -> list[str]:
    """The first walk within the bar, else the shortest.

    On a busy machine the steps are long, and so more of them are measured than on a calm one.
    """
    shortest: list[str] = []
    for modules in walks:
        assert "control/boundary.py" in modules
        shortest = min(shortest or modules, modules, key=len)
        if len(shortest) <= bar:
            break
    return shortest


def unnamed(modules: list[str]) -> list[str]:
    """Those that the page does not name in its walk of a batch."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition(WALK)
    walk, _, _ = after.partition("\n## ")
    return sorted(set(modules) - set(re.findall(r"`([\w/]+\.py)`", walk)))


def test_a_step_under_attach_walks_through_few_modules(tmp_path: Path) -> None:
    modules = fewest((walk_of_attach(tmp_path) for _ in range(ATTEMPTS)), ATTACH_BAR)
    assert len(modules) <= ATTACH_BAR, listed(modules)
    assert unnamed(modules) == []


def walk_of_attach(save_dir: Path) -> list[str]:
    plain, walk = Plain(STEPS, batch_size=1), Walk()
    with attach(*plain.parts, save_dir=save_dir) as run, walk.traced():
        for _ in run.epochs(1):
            for x, _y in plain.loader:
                run.log(loss=plain.step(x))
                walk.step_ended()
    return walk.modules()


def test_a_step_of_a_session_walks_through_few_modules(tmp_path: Path) -> None:
    modules = fewest((walk_of_session(tmp_path) for _ in range(ATTEMPTS)), SESSION_BAR)
    assert len(modules) <= SESSION_BAR, listed(modules)
    assert unnamed(modules) == []


def walk_of_session(save_dir: Path) -> list[str]:
    walk = Walk()
    model = nn.Linear(2, 1)
    data = [(torch.ones(2), torch.ones(1))] * STEPS
    with Session(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        nn.MSELoss(),
        DataLoader(data, batch_size=1),
        config=SessionConfig(save_dir=save_dir),
    ) as session:
        session.on_step(lambda _record: walk.step_ended())
        with walk.traced():
            session.fit(steps=STEPS)
    return walk.modules()
