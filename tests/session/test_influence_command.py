"""`influence` on a parked session: true numbers, and a training that does not notice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.control import Command
from midstep.core.errors import ControlError
from midstep.session import Session, SessionConfig
from midstep.session.hooks import Hook
from tests.control.loop import IN_VIEW
from tests.session.same import assert_same

TIMEOUT_S = 60.0


def moods(wanted: bool) -> list[nn.Module]:
    """What draws in training, and what has buffers."""
    return [nn.Dropout(0.3), nn.BatchNorm1d(6)] if wanted else []


def small_session(folder: Path, *, moody: bool = False, **settings: Any) -> Session:
    drawn = torch.Generator().manual_seed(0)
    inputs = torch.randn(24, 4, generator=drawn)
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), *moods(moody), nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(data, batch_size=8, shuffle=moody)
    config = SessionConfig(save_dir=folder, **settings)
    return Session(model, optimizer, nn.CrossEntropyLoss(), loader, config=config)


@contextmanager
def parked(session: Session) -> Iterator[Any]:
    """A session that stands before its first step; gives what asks it."""
    control = session.controller
    control.pause()
    thread = threading.Thread(target=session.fit, kwargs={"steps": 9})

    def ask(name: str, **payload: Any) -> Any:
        return control.submit(Command(name=name, payload=payload)).result(TIMEOUT_S)

    with session:
        thread.start()
        try:
            ask("pause")
            yield ask
        finally:
            control.stop()
            thread.join(TIMEOUT_S)


def losses_of(model: nn.Module, batch: Any) -> torch.Tensor:
    with torch.no_grad():
        return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("clip", [None, 0.01], ids=["plain", "clipped"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_it_tells_how_the_last_step_changed_each_loss(tmp_path, accumulate, clip):
    session = small_session(tmp_path, accumulate_steps=accumulate, grad_clip_norm=clip)
    model = session.trainer.parts.model
    with parked(session) as ask:
        ask("step", n=2)
        before = {name: each.clone() for name, each in model.state_dict().items()}
        ask("step", n=1)
        told = ask("influence")
        shown = session.controller.captures.reader.shown()
        captured = session.controller.get_batch()
        now = losses_of(model, captured["batch"])
        after = {name: each.clone() for name, each in model.state_dict().items()}
        model.load_state_dict(before)
        true = now - losses_of(model, captured["batch"])
        model.load_state_dict(after)
    table = shown.values["influence_samples"]
    torch.testing.assert_close(table["change"], true, rtol=0.02, atol=2e-7)
    parts = shown.values["influence"]["matrix"].sum(1) + table["by_momentum_and_decay"]
    torch.testing.assert_close(parts, table["change"], rtol=1e-4, atol=1e-8)
    assert shown.values["influence"]["labels"] == [str(each) for each in captured["sample_ids"]]
    assert (told["step"], told["samples"], told["of"]) == (3, 8 * accumulate, 8 * accumulate)
    assert shown.panels["influence"].kind == "matrix"


def test_the_answer_is_bounded_and_names_the_largest_pairs(tmp_path):
    session = small_session(tmp_path)
    with parked(session) as ask:
        ask("step", n=1)
        told = ask("influence", samples=3)
        notes = session.controller.captures.reader.shown().values["influence_notes"]
    assert notes.startswith("The first 3 of 8 samples")
    assert (told["samples"], told["of"], len(told["top"])) == (3, 8, 6)
    sizes = [abs(pair["change"]) for pair in told["top"]]
    assert sizes == sorted(sizes, reverse=True)
    assert all(pair["sample"] != pair["by"] for pair in told["top"])
    assert "first 3 of 8" in told["text"]


def test_it_is_gone_when_the_next_step_begins(tmp_path):
    session = small_session(tmp_path)
    with parked(session) as ask:
        ask("step", n=1)
        ask("influence")
        assert "influence" in session.controller.captures.reader.shown().values
        ask("step", n=1)
        assert "influence" not in session.controller.captures.reader.shown().values


@pytest.mark.parametrize("samples", [0, 513, True, "all"])
def test_odd_numbers_of_samples_are_refused(tmp_path, samples):
    with parked(small_session(tmp_path)) as ask, pytest.raises(ControlError, match="samples must"):
        ask("influence", samples=samples)


def test_before_the_first_step_there_is_nothing_to_look_at(tmp_path):
    with parked(small_session(tmp_path)) as ask, pytest.raises(ControlError, match="make one step"):
        ask("influence")


def test_a_running_session_refuses_it(tmp_path):
    session = small_session(tmp_path)
    assert session.run is not None
    future = session.controller.submit(Command(name="influence"))
    with pytest.raises(ControlError, match="pause it first"):
        future.result(TIMEOUT_S)
    session.close()


def test_a_session_that_is_asked_all_the_time_trains_the_same_bits(tmp_path):
    """Dropout, batch norm and a shuffled order: nothing of it is moved."""
    states = []
    for often in (False, True):
        session = small_session(tmp_path / str(often), moody=True)
        with parked(session) as ask:
            for _ in range(7):
                ask("step", n=1)
                if often:
                    ask("influence", samples=2)
            states.append(session.trainer.state.take().state_tree())
    assert_same(*states)


class Counting(Hook):
    """Counts the passes that it sees."""

    key = "passes"

    def __init__(self) -> None:
        self.seen = 0

    def modules(self, model):
        return [("first", model[0])]

    def forward(self, name, module, args, kwargs, output):
        self.seen += 1

    def after_step(self, model):
        return {"seen": self.seen}


def test_hooks_do_not_look_at_its_passes(tmp_path):
    session, hook = small_session(tmp_path), Counting()
    session.show(hook)
    with parked(session) as ask, session.controller.captures.viewer(*IN_VIEW):
        ask("step", n=2)
        seen = hook.seen
        ask("influence")
        assert hook.seen == seen > 0
        assert {"passes", "influence"} <= set(session.controller.captures.reader.shown().values)
        ask("step", n=1)
        assert hook.seen == seen + 1


class TokenMean(nn.Module):
    """The mean over the tokens that count, as language models are trained."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        flat = logits.flatten(0, 1), labels.flatten()
        return nn.functional.cross_entropy(*flat, ignore_index=-100)


def text_session(folder: Path, *, padded_to: int | None) -> Session:
    """Eight texts of different lengths, in two micro-batches a step."""
    drawn = torch.Generator().manual_seed(0)
    texts = [torch.randint(0, 7, (length,), generator=drawn) for length in (2, 9, 3, 4, 7, 2, 6, 1)]

    def collate(chosen):
        width = padded_to or max(len(each) for each in chosen)
        ids = torch.zeros(len(chosen), width, dtype=torch.long)
        labels = torch.full_like(ids, -100)
        for row, each in enumerate(chosen):
            ids[row, : len(each)] = each
            labels[row, : len(each)] = each.flip(0)
        return ids, labels

    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(7, 5), nn.Tanh(), nn.Linear(5, 7)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(texts, batch_size=4, collate_fn=collate)
    config = SessionConfig(save_dir=folder, accumulate_steps=2)
    return Session(model, optimizer, TokenMean(), loader, config=config)


def test_a_mean_over_tokens_is_weighted_by_tokens_in_each_micro_batch(tmp_path):
    session = text_session(tmp_path, padded_to=9)
    model = session.trainer.parts.model
    with parked(session) as ask:
        before = {name: each.clone() for name, each in model.state_dict().items()}
        ask("step", n=1)
        result = ask("influence")
        table = session.controller.captures.reader.shown().values["influence_samples"]
        ids, labels = (torch.cat(parts) for parts in zip(*session.trainer.batches, strict=True))

        def losses():
            with torch.no_grad():
                rows = zip(ids.split(1), labels.split(1), strict=True)
                return torch.stack([TokenMean()(model(x), y) for x, y in rows])

        now = losses()
        model.load_state_dict(before)
        true = now - losses()
    # Plain descent has no momentum and no decay: the change is the sum of the contributions.
    torch.testing.assert_close(table["change"].double(), true, rtol=1e-3, atol=1e-9)
    assert any("different shares" in note for note in result["notes"])


def test_micro_batches_of_different_shapes_are_refused(tmp_path):
    with parked(text_session(tmp_path, padded_to=None)) as ask:
        ask("step", n=1)
        with pytest.raises(ControlError, match="only 4 of the 8 samples of this step are held"):
            ask("influence")
