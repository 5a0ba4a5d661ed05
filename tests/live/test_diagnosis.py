"""The cause of a stop is named, for trainings as users write them, and nothing of them changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import midstep
from midstep.control import Command
from midstep.core import strict_json
from midstep.facts import FactsReader
from midstep.session.rewind.snapshot_ring import SnapshotRing
from tests.checkers.neutral import (
    Condition,
    Scene,
    Training,
    assert_neutral,
    attached,
    wait_until,
)
from tests.live.stopped import NAN, ImageLoop, Images, stopped
from tests.live.test_attach import parked_at
from tests.live.test_true_statements import Gan
from tests.live.trainer import Plain, in_thread


def statuses(diagnosis: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["status"] for row in diagnosis["layers"]}


def test_a_sample_with_nan_is_named_with_the_layer_that_received_it(tmp_path: Path) -> None:
    loop = ImageLoop()
    with stopped(midstep.attach(*loop.parts, save_dir=tmp_path), loop.train) as why:
        assert why["title"] == "Loss is NaN."
        assert why["cause"] == "First non-finite: input of sample 37 → conv1 output"
        assert (why["samples"], why["positions"], why["step"]) == ([37], [5], 5)
        (bad,) = why["inputs"]
        assert (bad["bad"], bad["of"], bad["where"], bad["what"]) == (
            16,
            64,
            "rows 3 to 4",
            "all NaN",
        )
        assert statuses(why) == {
            "input": "source",
            "conv1": "first",
            "relu1": "carries",
            "fc": "carries",
            "loss": "carries",
        }
        assert why["pictures"]["input"]["height"] == 8
        assert why["pictures"]["output_of"] == "conv1"
        assert why["changes"][0]["reading"] == "First, explains the rest"
        assert why["broken_weights"] == why["weights"] > 0
    (directory,) = tmp_path.iterdir()
    recorded = [e for e in FactsReader(directory).events() if e.get("kind") == "diagnosis"]
    assert [each["cause"] for each in recorded] == [why["cause"]]


class Text(nn.Module):
    """Called with keywords, as models of Hugging Face are; the loss is in its output."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 6), nn.Linear(6, 20)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, Any]:
        hidden = self.embed(input_ids)
        # A sentence that is all padding: 0 / 0.
        counts = attention_mask.sum(1, keepdim=True)
        mean = (hidden * attention_mask.unsqueeze(-1)).sum(1) / counts
        return {"logits": self.head(mean)}


def test_code_between_two_layers_is_named_with_its_sample(tmp_path: Path) -> None:
    torch.manual_seed(0)
    ids, mask = torch.randint(0, 20, (12, 5)), torch.ones(12, 5)
    mask[7] = 0
    rows = [{"input_ids": a, "attention_mask": b} for a, b in zip(ids, mask, strict=True)]
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    model = Text()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for batch in loader:
                out = model(**batch)["logits"]
                loss = nn.functional.cross_entropy(out, batch["input_ids"][:, 0])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)

    with stopped(midstep.attach(model, optimizer, loader, save_dir=tmp_path), train) as why:
        assert why["cause"] == (
            "First non-finite: forward of the model, between embed and head, for sample 7"
        )
        assert statuses(why) == {
            "input": "ok",
            "embed": "ok",
            "forward": "first",
            "head": "carries",
            "loss": "carries",
        }


def test_a_gan_names_network_and_sample(tmp_path: Path) -> None:
    gan = Gan()
    gan.loader.dataset[21, 1] = NAN
    run = gan.attach(tmp_path)
    run.controller.add_breakpoint("expression", expression="loss_d > 1000 or not loss_d < 1000")

    def train(run: Any) -> None:
        for _ in gan.train(run):
            pass

    with stopped(run, train, kind="") as why:
        assert why["cause"] == "First non-finite: input of sample 21 → D.0 output"
        assert [row["name"] for row in why["layers"]][1:3] == ["G.0", "G.1"]
        assert {each["what"] for each in why["changes"]} >= {
            "Learning rate of G",
            "Learning rate of D",
        }


def test_every_micro_batch_of_an_accumulated_step_is_looked_at(tmp_path: Path) -> None:
    loop = ImageLoop(bad=45, batch_size=4)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for index, (x, y) in enumerate(loop.loader):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = loop.loss_fn(loop.model(x), y) / 4
                loss.backward()
                if index % 4 == 3:
                    nn.utils.clip_grad_norm_(loop.model.parameters(), 1.0)
                    loop.optimizer.step()
                    loop.optimizer.zero_grad()
                run.log(loss=loss)

    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    run.controller.breakpoints.add_rule("nonfinite_layer")
    with stopped(run, train, kind="") as why:
        assert why["samples"] == [45]
        assert why["batch_size"] == 16
        assert why["cause"] == "First non-finite: input of sample 45 → conv1 output"


def test_a_model_that_steps_several_times_in_a_step_is_run_again(tmp_path: Path) -> None:
    torch.manual_seed(0)
    critic, actor = nn.Linear(3, 1), nn.Linear(3, 3)
    both = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (critic, actor)]

    def train(run: Any) -> None:
        for step in run.steps(6):
            x = run.batch(torch.randn(4, 3))
            if step == 3:
                x[2] = NAN
            for _ in range(3):
                both[0].zero_grad()
                critic(x.detach()).square().mean().backward()
                both[0].step()
            both[1].zero_grad()
            loss = critic(actor(x)).mean()
            loss.backward()
            both[1].step()
            run.log(loss=loss)

    run = midstep.attach({"critic": critic, "actor": actor}, both, save_dir=tmp_path)
    with stopped(run, train) as why:
        assert why["cause"] == (
            "First non-finite: input of the sample at position 2 → critic output"
        )
        assert (why["samples"], why["has_ids"]) == ([2], False)


class Stream(torch.utils.data.IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(24):
            yield torch.full((2,), NAN if index == 13 else float(index))


def test_a_stream_names_its_samples_by_position(tmp_path: Path) -> None:
    plain = Plain()
    plain.loader = torch.utils.data.DataLoader(Stream(), batch_size=4)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for x in plain.loader:
                run.log(loss=plain.step(x))

    with stopped(midstep.attach(*plain.parts, save_dir=tmp_path), train) as why:
        # A stream numbers its samples in the order in which they come.
        assert why["samples"] == [13]
        assert why["cause"] == "First non-finite: input of sample 13 → model output"


def test_a_target_that_is_not_finite_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(24, 3), torch.randn(24, 1)
    y[17] = NAN
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for a, b in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(a), b)
                loss.backward()
                optimizer.step()
                run.log(loss=loss)

    with stopped(midstep.attach(model, optimizer, loader, save_dir=tmp_path), train) as why:
        assert why["cause"] == "First non-finite: target of sample 17 → loss"
        assert set(statuses(why).values()) == {"source", "ok", "carries"}


class Root(nn.Module):
    """The root of zero has an infinite slope: the loss is finite, its gradient is not."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(2, 2), nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        zero = (self.fc(x) * 0).sum(1, keepdim=True)
        return self.out(zero.sqrt())


def root_loop(rule: str, folder: Path, **settings: Any) -> Any:
    plain = Plain()
    plain.model = Root()
    plain.optimizer = torch.optim.SGD(plain.model.parameters(), lr=1e-3)
    run = midstep.attach(*plain.parts, save_dir=folder, **settings)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for x, _y in plain.loader:
                plain.optimizer.zero_grad()
                loss = plain.model(x).square().mean()
                loss.backward()
                plain.optimizer.step()
                run.log(loss=loss)

    if rule == "grad_norm":
        run.controller.add_breakpoint("grad_norm", limit=1e9)
        return stopped(run, train, kind="")
    return stopped(run, train, kind=rule)


def test_a_gradient_that_is_not_finite_is_named_before_the_weights(tmp_path: Path) -> None:
    with root_loop("grad_norm", tmp_path) as why:
        assert (why["title"], why["step"]) == ("Gradient norm is NaN.", 1)
        assert why["cause"] == ("First non-finite: gradient of fc.bias; the forward pass is finite")


def test_one_step_later_the_parameter_is_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotRing, "is_due", lambda _ring, _step: True)
    with root_loop("loss_nonfinite", tmp_path) as why:
        assert why["step"] == 2
        assert why["cause"].startswith("First non-finite: parameter fc.weight, before this step")


def test_without_a_snapshot_that_is_said(tmp_path: Path) -> None:
    loop = ImageLoop()
    run = midstep.attach(*loop.parts, save_dir=tmp_path, rewind_steps=0)
    with stopped(run, loop.train) as why:
        assert why["cause"] == "First non-finite: input of sample 37"
        assert any("No snapshot from before the step is held" in each for each in why["notes"])
        weights = {row["name"]: row["weight"] for row in why["layers"]}
        assert weights["fc"] != weights["fc"]


def with_lock() -> nn.Module:
    model = Images()
    model.lock = threading.Lock()  # type: ignore[assignment]
    return model


def with_closure() -> nn.Module:
    model, inner = nn.Sequential(), Images()
    model.add_module("conv1", inner.conv1)
    model.forward = lambda x: 2 * inner(x)  # type: ignore[method-assign]
    return model


class Raises(Images):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():
            raise ValueError("only for training")
        return super().forward(x)


class WritesInput(Images):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.mul_(2.0))


class Exhausts(Images):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():
            raise torch.OutOfMemoryError("tried to allocate 80 GiB")
        return super().forward(x)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (with_lock, "could not be run again: the model cannot be copied"),
        (with_closure, "could not be run again: its forward calls a Images"),
        (Raises, "again raised ValueError: only for training"),
        (Exhausts, "again raised OutOfMemoryError: tried to allocate"),
        (WritesInput, "changed in place"),
    ],
)
def test_what_cannot_be_run_again_is_said_and_the_training_goes_on(
    tmp_path: Path, build: Any, words: str
) -> None:
    loop = ImageLoop()
    loop.model = build()
    loop.optimizer = torch.optim.Adam(loop.model.parameters(), lr=1e-3)
    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    with stopped(run, loop.train) as why:
        assert any(words in each for each in why["notes"]), why["notes"]
        assert why["samples"] == [37]
        run.controller.breakpoints.remove(1)
        run.controller.resume()
        wait_until(run.controller, lambda state: state["state"] == "finished")
    assert run.step == 8


def test_a_model_is_not_copied_into_the_last_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstep.session.diagnosis.rerun.free_host_bytes", lambda: 10_000)
    loop = ImageLoop()
    with stopped(midstep.attach(*loop.parts, save_dir=tmp_path), loop.train) as why:
        assert any("a copy of the model takes" in each for each in why["notes"])
        assert why["samples"] == [37]


def test_a_model_whose_parts_are_called_directly_is_run_again(tmp_path: Path) -> None:
    loop = ImageLoop()
    model = loop.model

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for x, y in loop.loader:
                loop.optimizer.zero_grad()
                loss = loop.loss_fn(model.fc(model.conv1(x).relu().flatten(1)), y)
                loss.backward()
                loop.optimizer.step()
                run.log(loss=loss)

    with stopped(midstep.attach(*loop.parts, save_dir=tmp_path), train) as why:
        assert why["cause"] == "First non-finite: input of sample 37 → conv1 output"


def test_a_rate_that_jumps_is_named_with_value_and_step(tmp_path: Path) -> None:
    loop = ImageLoop(bad=-1, count=240)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for x, y in loop.loader:
                if run.step == 20:
                    loop.optimizer.param_groups[0]["lr"] *= 80
                loop.optimizer.zero_grad()
                loss = loop.loss_fn(loop.model(x), y)
                loss.backward()
                loop.optimizer.step()
                run.log(loss=loss)

    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    run.controller.add_breakpoint("loss_z", limit=6)
    with stopped(run, train, kind="") as why:
        assert why["cause"] == "Learning rate 0.001 → 0.08 (× 80) at step 21"
        assert why["title"].startswith("Loss rose to ")
        first = why["changes"][0]
        assert (first["before"], first["after"], first["step"]) == (0.001, 0.08, 21)
        assert why["layers"] == []


def test_dead_units_are_counted_at_a_finite_stop_without_a_rule(tmp_path: Path) -> None:
    loop = ImageLoop(bad=-1)
    with torch.no_grad():
        loop.model.conv1.bias[:3] = -100.0
    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    run.controller.add_breakpoint("step", step=3)
    with stopped(run, loop.train, kind="") as why:
        (dead,) = [each for each in why["changes"] if each["key"] == "dead"]
        assert (dead["what"], dead["reading"]) == ("Dead units of relu1", "3 of 4 units")
        assert (dead["after"], dead["step"]) == (0.75, 3)


def test_a_sample_whose_loss_alone_is_not_finite_is_named(tmp_path: Path) -> None:
    """The model is finite, and so are its inputs: log(0) is in the loss of one sample."""
    loop = ImageLoop(bad=-1)
    loop.x[29] = 0.0

    class LogLoss(nn.Module):
        def forward(self, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            sizes = out.square().sum(1) * y.sign().abs()
            return -sizes.log().mean()

    loop.y[:] = 1
    loop.y[29] = 0
    loop.loss_fn = LogLoss()  # type: ignore[assignment]
    run = midstep.attach(*loop.parts, loss_fn=loop.loss_fn, save_dir=tmp_path)
    with stopped(run, loop.train) as why:
        assert why["samples"] == [29]


# -- nothing changes ------------------------------------------------------------------------------


def test_a_diagnosis_leaves_model_hooks_generators_and_batch_alone(tmp_path: Path) -> None:
    loop = ImageLoop()
    loop.model.fc = nn.Sequential(
        nn.Dropout(0.2), nn.BatchNorm1d(4 * 8 * 8), nn.Linear(4 * 8 * 8, 10)
    )
    fired: list[int] = []
    loop.model.conv1.register_forward_hook(lambda *_: fired.append(1))
    before: dict[str, Any] = {}

    def note() -> None:
        before.update(
            state={name: value.clone() for name, value in loop.model.state_dict().items()},
            random=torch.get_rng_state(),
            x=loop.x.clone(),
            fired=len(fired),
        )

    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    remove = run.controller.sinks.on_park(note)  # added first, so it is called first
    with stopped(run, loop.train) as why:
        assert why["weights_step"] is not None
        remove()
        assert len(fired) == before["fired"] == 5
        assert torch.equal(torch.get_rng_state(), before["random"])
        assert torch.equal(loop.x.nan_to_num(), before["x"].nan_to_num())
        for name, value in loop.model.state_dict().items():
            assert torch.equal(value.nan_to_num(), before["state"][name].nan_to_num()), name


def planted() -> Training:
    """Finite, with a breakpoint that holds twice."""
    loop = ImageLoop(bad=-1, count=48)
    loop.model.fc = nn.Sequential(nn.Dropout(0.2), loop.model.fc)
    return Training(
        model=loop.model,
        optimizer=torch.optim.Adam(loop.model.parameters(), lr=1e-3),
        loader=torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(loop.x, loop.y, torch.arange(48)),
            batch_size=8,
            shuffle=True,
        ),
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        ids=lambda batch: batch[2].tolist(),
    )


def stop_and_resume(scene: Scene) -> None:
    control = scene.controller
    for step in (4, 8, 12):
        wait_until(control, parked_at(step))
        wait_until(control, lambda _, at=step: (control.status.diagnosis or {}).get("step") == at)
        control.resume()


def arm(control: Any, _training: Training) -> None:
    control.add_breakpoint("every", n=4)
    control.breakpoints.add_rule("nonfinite_layer")


def test_a_training_that_is_diagnosed_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every stop is looked into as if its loss were not finite.
    monkeypatch.setattr(
        "midstep.session.diagnosis.stop_diagnosis.StopDiagnosis._is_nonfinite", lambda _self: True
    )
    condition = Condition(prepare=arm, drive=stop_and_resume)
    assert_neutral(planted, attached, tmp_path, {"diagnosed": condition})


def test_going_back_after_a_diagnosis_repeats_the_same_bits(tmp_path: Path) -> None:
    loop = ImageLoop()
    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    control = run.controller
    with stopped(run, loop.train) as why:
        assert why["step"] == 5
        answer = control.submit(Command(name="back", payload={"n": 2})).result(30)
        assert answer["exact"] is True
        control.step(2)
        wait_until(control, lambda s: s["step"] == 5 and (s["breakpoint"] or {}).get("cause"))
        assert control.status.diagnosis["cause"] == why["cause"]
        assert control.status.diagnosis["timeline"] == 1


def test_nothing_is_held_while_no_breakpoint_can_stop(tmp_path: Path) -> None:
    loop = ImageLoop(bad=-1)
    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    with run:
        run.controller.add_breakpoint("loss_nonfinite", action="mark")
        held = run.opened_run().diagnoser.held
        for _ in run.epochs(1):
            for x, _y in loop.loader:
                loop.model(x).sum().backward()
                assert held.calls == []
                assert len(loop.model._forward_pre_hooks) == 0
                loop.optimizer.step()


def test_the_held_step_is_dropped_at_the_boundary_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstep.session.diagnosis.held_step.MOST_CALLS", 3)
    loop = ImageLoop(bad=-1)
    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    with run:
        run.controller.add_breakpoint("loss_nonfinite")
        held = run.opened_run().diagnoser.held
        counts = []
        for _ in run.epochs(1):
            for x, _y in loop.loader:
                assert held.calls == []
                for _ in range(5):
                    loop.model(x).sum().backward()
                counts.append((len(held.calls), held.dropped))
                with torch.no_grad():
                    loop.model(x)
                loop.optimizer.step()
    assert counts == [(3, 2)] * 8


def test_an_error_of_ours_is_said_once_and_the_run_stays_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("midstep.session.diagnosis.stop_diagnosis.StopDiagnosis.look", broken)
    plain = Plain()
    run = midstep.attach(*plain.parts, save_dir=tmp_path)
    control = run.controller
    control.add_breakpoint("every", n=2)
    with caplog.at_level(logging.ERROR), in_thread(run, plain.train):
        for step in (2, 4):
            wait_until(control, parked_at(step))
            control.resume()
        wait_until(control, parked_at(6))
    assert caplog.text.count("looking for the cause of a stop failed and is off") == 1


def test_a_breakpoint_that_stops_at_every_step_does_not_fill_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstep.session.diagnosis.diagnoser.MOST_LARGE", 1)
    loop = ImageLoop(bad=3)
    run = midstep.attach(*loop.parts, save_dir=tmp_path)
    control = run.controller
    with stopped(run, loop.train) as why:
        assert why["layers"]
        control.resume()
        wait_until(control, lambda _: control.status.diagnosis["step"] == 2)
        assert control.status.diagnosis["layers"] == []
        assert control.status.diagnosis["pictures"] is None


def test_a_diagnosis_of_a_deep_model_is_bounded(tmp_path: Path) -> None:
    loop = ImageLoop()
    deep = [nn.Linear(4, 4) for _ in range(230)]
    loop.model.fc = nn.Sequential(nn.Linear(256, 4), *deep, nn.Linear(4, 10))
    with stopped(midstep.attach(*loop.parts, save_dir=tmp_path), loop.train) as why:
        assert len(why["layers"]) == 202
        assert len(strict_json.dumps(why)) < 50_000
