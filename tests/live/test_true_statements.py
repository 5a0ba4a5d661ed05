"""What is said about trainings as users write them: two optimizers, accumulation, a way back."""

from __future__ import annotations

import itertools
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import midstep
from midstep.control import Command, DebugController
from midstep.control.capture.captured_data import resolve
from midstep.control.capture.subscriptions import Need
from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.facts.format.run_files import classify
from midstep.facts.index.labels import read_labels
from midstep.session.environment_files import MOST_DIFF_BYTES, read_diff
from midstep.session.hooks.hook_manager import HookManager
from tests.checkers.neutral import wait_until
from tests.live.test_attach import parked_at
from tests.live.trainer import in_thread


class Gan:
    """A GAN on points of a circle, as in a tutorial: two networks, two optimizers, two losses."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=2e-3, betas=(0.5, 0.9))
        angles = torch.rand(64, 1) * 6.3
        points = torch.cat([angles.cos(), angles.sin()], dim=1)
        self.loader = torch.utils.data.DataLoader(points, batch_size=4)

    def attach(self, folder: Path, known: str = "G D") -> Any:
        model = {"G": self.generator, "D": self.discriminator}
        both = {"G": self.opt_g, "D": self.opt_d}
        optimizers = {name: both[name] for name in known.split()}
        return midstep.attach(model, optimizers, self.loader, save_dir=folder)

    def train(self, run: Any, *, epochs: int = 1, every: int = 1) -> Iterator[None]:
        """Yields after each batch; the generator is trained on every n-th, from the first on."""
        bce = nn.functional.binary_cross_entropy_with_logits
        ones, zeros = torch.ones(4, 1), torch.zeros(4, 1)
        for _ in run.epochs(epochs):
            for index, real in enumerate(self.loader):
                fake = self.generator(torch.randn(4, 4))
                loss_d = bce(self.discriminator(real), ones)
                loss_d = loss_d + bce(self.discriminator(fake.detach()), zeros)
                self.opt_d.zero_grad()
                loss_d.backward()
                self.opt_d.step()
                run.log(loss_d=loss_d)
                if index % every == 0:
                    loss_g = bce(self.discriminator(fake), ones)
                    self.opt_g.zero_grad()
                    loss_g.backward()
                    self.opt_g.step()
                    run.log(loss_g=loss_g)
                yield


def marked_layers(gan: Gan, folder: Path, known: str, every: int) -> list[str]:
    with gan.attach(folder, known) as run:
        run.controller.breakpoints.add_rule("unchanged_weights", action="mark", every=2, window=2)
        for _ in gan.train(run, every=every):
            pass
        directory = run.dir
    events = FactsReader(directory).events()
    return [each["layer"] for each in events if each.get("kind") == "mark"]


@pytest.mark.parametrize("known", ["G D", "D G", "G", "D"])
@pytest.mark.parametrize("every", [1, 4])
def test_a_healthy_gan_has_no_unchanged_weights(tmp_path: Path, known: str, every: int) -> None:
    # With `every=4` the generator steps only in steps that the rule does not measure.
    assert marked_layers(Gan(), tmp_path, known, every) == []


def test_a_layer_that_no_optimizer_holds_is_still_named(tmp_path: Path) -> None:
    gan = Gan()
    gan.opt_d = torch.optim.Adam(gan.discriminator[2].parameters(), lr=2e-3)
    assert marked_layers(gan, tmp_path, "G D", 1) == ["D.0.weight"]


class KeptNorms(midstep.hooks.LayerNorms):
    """Keeps the table of the last step."""

    table: dict[str, Any]

    def after_step(self, model: nn.Module) -> Any:
        data = super().after_step(model)
        self.table = resolve(data)
        return data


def second_step(gan: Gan, optimizers: list[torch.optim.Optimizer]) -> tuple[Any, Any, Any]:
    """The table of a GAN's second batch; the true norms of gradients and of changes by name."""
    model, hook = nn.ModuleDict({"G": gan.generator, "D": gan.discriminator}), KeptNorms()
    named = dict(model.named_parameters())
    gradients: dict[str, float] = {}

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        held = {id(each) for each in optimizer.param_groups[0]["params"]}
        own = ((name, value) for name, value in named.items() if id(value) in held)
        gradients.update((name, float(value.grad.norm())) for name, value in own)

    control = DebugController()
    control._state.clock = itertools.count().__next__  # every step is shown
    manager = HookManager(control, model, optimizers, lambda key, why: pytest.fail(f"{key}: {why}"))
    manager.add(hook)
    with control.captures.viewer(Need(kind="layers")):
        control.boundary.enter()
        loop = SimpleNamespace(epochs=range, log=lambda **_: None)
        steps = gan.train(loop)
        next(steps)
        control.wait_if_paused()
        before = {name: value.detach().clone() for name, value in named.items()}
        for each in (gan.opt_g, gan.opt_d):
            each.register_step_pre_hook(note)
        next(steps)
        changes = {
            name: float((value.detach() - before[name]).norm()) for name, value in named.items()
        }
        control.wait_if_paused()
    manager.close()
    return hook.table, gradients, changes


def column(table: dict[str, Any], name: str) -> dict[str, float]:
    return dict(zip(table["name"], table[name].tolist(), strict=True))


@pytest.mark.parametrize("order", [1, -1])
def test_layers_show_what_each_optimizer_got_and_changed(order: int) -> None:
    gan = Gan()
    table, gradients, changes = second_step(gan, [gan.opt_g, gan.opt_d][::order])
    assert list(table["name"]) == list(changes)
    assert column(table, "grad_norm") == pytest.approx(gradients)
    assert column(table, "update_norm") == pytest.approx(changes, rel=1e-4)


def test_layers_of_an_optimizer_that_is_not_known_are_not_called_still() -> None:
    gan = Gan()
    table, _, changes = second_step(gan, [gan.opt_g])
    ratios = column(table, "update_ratio")
    assert {name for name, ratio in ratios.items() if math.isnan(ratio)} == {
        name for name in changes if name.startswith("D.")
    }


def test_after_back_everything_is_of_the_present_timeline(tmp_path: Path) -> None:
    """The header and the scalars are those of the step that the run went back to."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    loader = torch.utils.data.DataLoader(torch.randn(16, 2), batch_size=1)
    run = midstep.attach(
        model, optimizer, loader, scheduler=scheduler, save_dir=tmp_path, start_paused=True
    )
    control = run.controller

    def train() -> None:
        for _ in run.epochs(1):
            for x in loader:
                loss = (model(x) - 1.0).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                run.log(loss=loss)

    with in_thread(run, lambda _run: train()):
        wait_until(control, parked_at(0))
        control.run_until(step=4)
        there = wait_until(control, parked_at(4))
        control.run_until(step=9)
        wait_until(control, parked_at(9))
        for step in (4, 0):
            control.submit(Command(name="back", payload={"step": step})).result(30)
            state = wait_until(control, parked_at(step))
            if step:
                assert (state["lr"], state["loss"]) == (there["lr"], pytest.approx(there["loss"]))
            else:
                assert (state["lr"], state["loss"]) == (0.1, None)
            series = FactsReader(run.dir).series()
            assert all((each.step <= step).all() for each in series.values())
        control.stop()


def test_what_is_no_number_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(6, 2), batch_size=2)
    with midstep.attach(model, optimizer, loader, save_dir=tmp_path) as run:
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
            stack = torch.zeros(2, 5, 5)
            run.log(loss="abc", sample={"id": 1}, h=[1, "two"], stack=stack, good=1.0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "not recorded" in line]
    kinds = {"loss": "str", "sample": "dict", "h": "list", "stack": "tensor of shape (2, 5, 5)"}
    assert len(lines) == 4
    for name, kind in kinds.items():
        assert any(f"log({name}=" in line and kind in line for line in lines)
    assert len(FactsReader(run.dir).series(["good"])["good"].step) == 3


def test_a_smaller_last_batch_is_no_outlier(tmp_path: Path) -> None:
    """The last two samples are unusual; forty of them are not."""
    data = torch.randn(402, 1, generator=torch.Generator().manual_seed(0))
    data[400:] = 12.0
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(data, batch_size=40)
    with midstep.attach(model, optimizer, loader, save_dir=tmp_path) as run:
        run.controller.breakpoints.add("loss_z", action="mark", limit=4.0)
        for _ in run.epochs(3):
            for x in loader:
                loss = (model(x) - 5.0).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                run.log(loss=loss)
    events = FactsReader(run.dir).events()
    assert [each["step"] for each in events if each.get("kind") == "mark"] == []


def test_tags_notes_and_environment_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    monkeypatch.chdir(code)
    for command in (
        "init -q",
        "config user.email a@b.c",
        "config user.name a",
        "commit -q --allow-empty -m first",
    ):
        subprocess.run(["git", *command.split()], check=True)
    (code / "train.py").write_text("lr = 0.1\n")
    subprocess.run(["git", "add", "train.py"], check=True)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings = {"tracker": {"api_key": "s3cret", "project": "p"}, "credentials": {"user": "s3cret"}}
    given = {"tags": ["gan", "first"], "notes": "a try", "config": settings}
    with midstep.attach(model, optimizer, save_dir=tmp_path / "runs", **given) as run:
        pass
    labels = read_labels(run.dir)
    assert (labels.tags, labels.note) == (("gan", "first"), "a try")
    diff, packages = run.dir / "artifacts/git-diff.patch", run.dir / "artifacts/packages.txt"
    assert "+lr = 0.1" in diff.read_text()
    assert f"torch=={torch.__version__}" in packages.read_text().splitlines()
    for file in (diff, packages):
        assert file.stat().st_mode & 0o777 == 0o600
        assert classify(f"artifacts/{file.name}") == ("artifact", True)
    (header,) = (each for each in FactsReader(run.dir).events() if each["moment"] == "on_start")
    assert header["config"]["tracker"] == {"api_key": "***", "project": "p"}
    assert not any(b"s3cret" in each.read_bytes() for each in run.dir.rglob("*") if each.is_file())
    assert "lr = 0.1" not in (run.dir / "facts/events.jsonl").read_text()
    for lines, is_cut in ((10, False), (12_000, True)):
        text = f"#token={'s3cret' * 400}\n" + f"{'x' * 98}\n" * lines
        (code / "train.py").write_text(text)
        kept = read_diff(code)
        assert len(kept) <= MOST_DIFF_BYTES
        assert kept.endswith(b"longer than 1 MiB\n") == is_cut
        assert b"#token=***\n" in kept
    with midstep.attach(model, optimizer, save_dir=tmp_path / "runs", git_diff=False) as run:
        pass
    assert not (run.dir / "artifacts/git-diff.patch").exists()
    with pytest.raises(ConfigError, match=r'write tags=\["gan"\]'):
        midstep.attach(model, optimizer, tags="gan")
