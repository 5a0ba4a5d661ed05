"""The loss of each sample of a batch, in trainings as users write them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.utils.data import DataLoader

from midstep.control import DebugController
from midstep.control.capture.captured_data import ShownSamples
from midstep.control.capture.subscriptions import Need
from midstep.explore import sample_losses
from midstep.explore.step_losses import CHANGED
from midstep.live import attach
from midstep.live.loop.declared_loss import CALL, DECLARE

SAMPLES, CLASSES, LENGTH = 8, 5, 6
SHOWN = 5


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def classes(*shape: int) -> Tensor:
    return torch.randint(CLASSES, shape, generator=torch.Generator().manual_seed(2))


@dataclass
class Loop:
    """A loop of one step that is in view, and what it computed."""

    tmp_path: Any
    run: Any = None

    def train(
        self,
        model: nn.Module,
        data: list[Any],
        step: Callable[[Loop, Any], Tensor],
        *,
        loss_fn: Any = None,
        batch_size: int = SAMPLES,
        accumulate: int = 1,
        logs: bool = True,
        shown: int | None = SHOWN,
    ) -> ShownSamples:
        """One optimizer step; returns its samples."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(data, batch_size=batch_size)  # type: ignore[arg-type]
        control = DebugController()
        with (
            attach(
                *(model, optimizer, loader),
                loss_fn=loss_fn,
                save_dir=self.tmp_path,
                controller=control,
            ) as self.run,
            control.captures.viewer(Need(kind="batch", count=shown)),
        ):
            for number, batch in enumerate(loader, start=1):
                loss = step(self, batch)
                (loss / accumulate).backward()
                if number % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    if logs:
                        self.run.log(loss=loss)
        return control.captures.recent[0].samples(0, shown or SAMPLES)


@pytest.fixture
def loop(tmp_path) -> Loop:
    return Loop(tmp_path)


def assert_losses(shown: ShownSamples, expected: Tensor, weights: Tensor | None = None) -> None:
    """These are the losses of all samples, of which the first ones are shown."""
    assert shown.loss_note is None
    expected = expected.detach()
    torch.testing.assert_close(shown.losses, expected[: len(shown.losses)])
    parts = expected.double() * (1 if weights is None else weights)
    shares = parts / parts.sum()
    torch.testing.assert_close(shown.loss_shares, shares[: len(shown.losses)], rtol=1e-4, atol=0)


def pairs(x: Tensor, y: Tensor) -> list[Any]:
    return list(zip(x, y, strict=True))


X, Y = noise(SAMPLES, 4), classes(SAMPLES)


def focal(output: Tensor, target: Tensor) -> Tensor:
    log_p = -F.cross_entropy(output, target, reduction="none")
    return ((1 - log_p.exp()) ** 2 * -log_p).mean()


def test_a_declared_module_and_a_function_of_the_user(loop):
    net = nn.Linear(4, CLASSES)
    before = net(X)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    shown = loop.train(net, pairs(X, Y), lambda _, b: criterion(net(b[0]), b[1]), loss_fn=criterion)
    smooth = F.cross_entropy(before, Y, label_smoothing=0.1, reduction="none")
    assert_losses(shown, smooth)
    assert shown.prediction_kind == "class"
    assert shown.predictions.tolist() == before.argmax(1)[:SHOWN].tolist()
    assert torch.equal(shown.probabilities, before.softmax(1).amax(1)[:SHOWN].detach())
    for step in (lambda s, b: s.run.loss(net(b[0]), b[1]), lambda _, b: focal(net(b[0]), b[1])):
        before = net(X)
        shown = loop.train(net, pairs(X, Y), step, loss_fn=focal)
        expected = [focal(before[i : i + 1], Y[i : i + 1]) for i in range(8)]
        assert_losses(shown, torch.stack(expected))


def test_without_any_declaration_a_usual_loss_is_recognised_by_the_logged_one(loop):
    net = nn.Linear(4, 1)
    y = noise(SAMPLES)
    before = net(X)[:, 0]
    shown = loop.train(net, pairs(X, y), lambda _, b: F.mse_loss(net(b[0])[:, 0], b[1]))
    assert_losses(shown, (before - y) ** 2)
    assert shown.prediction_kind == "value"
    torch.testing.assert_close(shown.predictions, before[:SHOWN].detach())


@pytest.mark.parametrize(
    ("loss_fn", "step", "note"),
    [
        (None, lambda out, _y: (out.softmax(1) ** 2).mean(), DECLARE),
        # A declared function is tried, and believed only if it gives the logged loss.
        (lambda out, y: 2 * focal(out, y).sqrt(), focal, CALL),
    ],
)
def test_what_is_not_recognised_says_how_to_declare_it(loop, loss_fn, step, note):
    net = nn.Linear(4, CLASSES)
    shown = loop.train(net, pairs(X, Y), lambda _, b: step(net(b[0]), b[1]), loss_fn=loss_fn)
    assert (shown.losses, shown.loss_note) == (None, note)
    shown = loop.train(net, pairs(X, Y), lambda _, b: step(net(b[0]), b[1]), logs=False)
    assert shown.loss_note == DECLARE


class Contrastive(nn.Module):
    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return F.cross_entropy(one @ other.t(), torch.arange(len(one)))


def test_a_loss_that_compares_samples_is_not_shared_out(loop):
    net, loss = nn.Linear(4, 3), Contrastive()
    shown = loop.train(net, pairs(X, Y), lambda _, b: loss(net(b[0]), net(b[0] + 1)), loss_fn=loss)
    assert shown.losses is None
    assert shown.loss_note is not None
    assert shown.loss_note.startswith("This loss mixes samples")


# -- text -----------------------------------------------------------------------------------------

TOKENS = classes(SAMPLES, LENGTH + 1)
PADDED = torch.where(torch.arange(LENGTH + 1) > torch.arange(SAMPLES)[:, None], -100, TOKENS)


class Rows(nn.Module):
    """Scores of the next token, and perhaps its own loss."""

    def __init__(self, form: str = "scores") -> None:
        super().__init__()
        self.table, self.form = nn.Embedding(CLASSES, CLASSES), form
        self.table.weight.data = noise(CLASSES, CLASSES)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        scores = self.table(input_ids)
        if labels is None:
            return scores
        if self.form == "pair":
            return scores, F.cross_entropy(scores.flatten(0, 1), labels.flatten())
        rows, target = scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        extra = scores.std(0).mean() if self.form == "with a penalty" else 0
        return {"loss": F.cross_entropy(rows, target) + extra, "logits": scores}


def token_losses(model: Rows, tokens: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    rows = F.cross_entropy(model.table(tokens).transpose(1, 2), target, reduction="none")
    counts = (target >= 0).sum(1)
    return torch.where(counts > 0, rows.sum(1) / counts, 0.0), counts


def test_flattened_tokens_belong_to_their_sequences(loop):
    net, loss = Rows(), nn.CrossEntropyLoss()
    x, y = TOKENS[:, :-1], PADDED[:, 1:]
    expected = token_losses(net, x, y)
    flat = lambda _, b: loss(net(b[0]).flatten(0, 1), b[1].flatten())  # noqa: E731
    shown = loop.train(net, pairs(x, y), flat, loss_fn=loss)
    assert_losses(shown, *expected)
    assert shown.predictions.shape == (SHOWN, LENGTH)
    expected = token_losses(net, x, y)
    turned = lambda _, b: loss(net(b[0].t()).flatten(0, 1), b[1].t().flatten())  # noqa: E731
    assert_losses(loop.train(net, pairs(x, y), turned, loss_fn=loss), *expected)


def test_a_model_with_its_own_loss_shares_it_out_by_tokens(loop):
    data = [{"input_ids": a.clamp(0), "labels": a} for a in PADDED]
    own = lambda _, b: net(**b)["loss"]  # noqa: E731
    net = Rows()
    expected = token_losses(net, PADDED[:, :-1].clamp(0), PADDED[:, 1:])
    assert_losses(loop.train(net, data, own, logs=False), *expected)
    net = Rows("pair")
    expected = token_losses(net, PADDED.clamp(0), PADDED)
    assert_losses(loop.train(net, data, lambda _, b: net(**b)[1], logs=False), *expected)
    net = Rows("with a penalty")
    shown = loop.train(net, data, own, logs=False)
    assert (shown.losses, shown.loss_note) == (None, DECLARE)


# -- other shapes of a step -----------------------------------------------------------------------


@pytest.mark.parametrize("declares", [True, False])
def test_micro_batches_share_the_loss_of_their_step(loop, declares):
    net, loss = nn.Linear(4, CLASSES), nn.CrossEntropyLoss()
    expected = F.cross_entropy(net(X), Y, reduction="none")
    shown = loop.train(
        *(net, pairs(X, Y), lambda _, b: loss(net(b[0]), b[1])),
        loss_fn=loss if declares else None,
        batch_size=2,
        accumulate=4,
        shown=None,
    )
    assert_losses(shown, expected)
    assert shown.predictions.shape == (SAMPLES,)


def test_a_gan_says_which_of_its_losses_is_that_of_the_samples(loop):
    net, loss = nn.Linear(4, 1), nn.BCEWithLogitsLoss()
    ones = torch.ones(SAMPLES, 1)

    def step(loop: Loop, batch: Any, real: Callable[..., Tensor] | None = None) -> Tensor:
        return (real or loss)(net(batch[0]), ones) + loss(net(noise(SAMPLES, 4)), 1 - ones)

    shown = loop.train(net, pairs(X, Y), step, loss_fn=loss)
    assert shown.losses is None
    assert shown.loss_note is not None
    assert "computed 2 times" in shown.loss_note
    assert CALL in shown.loss_note
    expected = F.softplus(-net(X)[:, 0])
    named = lambda loop, batch: step(loop, batch, loop.run.loss)  # noqa: E731
    shown = loop.train(net, pairs(X, Y), named, loss_fn=loss)
    assert_losses(shown, expected)
    assert shown.prediction_kind == "class"


def test_a_segmentation_shows_maps_and_a_large_output_is_not_held(loop, monkeypatch):
    net, loss = nn.Conv2d(3, CLASSES, 1), nn.CrossEntropyLoss()
    data = pairs(noise(SAMPLES, 3, 4, 4), classes(SAMPLES, 4, 4))
    step = lambda _, b: loss(net(b[0]), b[1])  # noqa: E731
    for held in (2**20, 8):
        monkeypatch.setattr("midstep.explore.step_losses.HELD_BYTES", held)
        output = net(noise(SAMPLES, 3, 4, 4))
        expected = F.cross_entropy(output, classes(SAMPLES, 4, 4), reduction="none").mean((1, 2))
        shown = loop.train(net, data, step, loss_fn=loss)
        assert_losses(shown, expected)
        assert shown.prediction_kind == "map"
        assert torch.equal(shown.predictions, output.argmax(1)[:SHOWN])


def test_an_output_that_is_changed_after_the_loss_has_no_losses(loop):
    net, loss = nn.Linear(4, CLASSES), nn.CrossEntropyLoss()

    def step(_loop: Loop, batch: Any) -> Tensor:
        output = net(batch[0])
        whole: Tensor = loss(output, batch[1])
        with torch.no_grad():
            output.zero_()
        return whole

    assert loop.train(net, pairs(X, Y), step, loss_fn=loss).loss_note == CHANGED


def test_nothing_is_computed_or_held_when_nobody_looks(tmp_path, monkeypatch):
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the losses of samples were computed")

    monkeypatch.setattr(sample_losses, "_compute", forbidden)
    monkeypatch.setattr("midstep.explore.step_losses.StepLosses.loss_called", forbidden)
    monkeypatch.setattr("midstep.explore.step_losses.StepLosses.model_called", forbidden)
    net, loss = nn.Linear(4, CLASSES), nn.CrossEntropyLoss()
    for loss_fn in (loss, None):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loader = DataLoader(pairs(X, Y), batch_size=4)  # type: ignore[arg-type]
        with attach(net, optimizer, loader, loss_fn=loss_fn, save_dir=tmp_path) as run:
            for x, y in loader:
                loss(net(x), y).backward()
                optimizer.step()
                assert not net._forward_hooks
        assert run.step == 2


def test_the_first_request_waits_for_a_step_whose_losses_are_known(tmp_path):
    net, loss = nn.Linear(4, CLASSES), nn.CrossEntropyLoss()
    control, going = DebugController(), threading.Event()

    def train() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with attach(net, optimizer, loss_fn=loss, save_dir=tmp_path, controller=control) as run:
            for step in run.steps(None):
                x, y = run.batch(X, Y)
                loss(net(x), y).backward()
                if step > 2:
                    going.set()
                time.sleep(0.01)  # a request comes after the loss of a step
                optimizer.step()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        assert going.wait(30)
        captured = control.captures.reader.read_samples(0, SAMPLES, patience_s=30)
        assert captured is not None
        shown = captured.samples(0, SAMPLES)
        assert (shown.loss_note, len(shown.losses)) == (None, SAMPLES)
    finally:
        control.stop()
        thread.join(30)
    assert not thread.is_alive()
