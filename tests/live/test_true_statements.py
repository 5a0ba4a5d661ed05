"""What is said about trainings as users write them: two optimizers, accumulation, a way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import midstep
from midstep.control.capture.subscriptions import Need
from midstep.facts import FactsReader


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


@pytest.mark.parametrize("known", ["G D", "D G"])
def test_layers_show_what_both_optimizers_changed(tmp_path: Path, known: str) -> None:
    gan = Gan()
    with gan.attach(tmp_path, known) as run:
        run.controller.captures.viewer(Need(kind="layers"))
        run.controller._state.clock = iter(range(10**6)).__next__  # every step is shown
        steps = gan.train(run, epochs=1)
        next(steps)
        named = {
            f"{key}.{name}": value
            for key, model in zip("GD", (gan.generator, gan.discriminator), strict=True)
            for name, value in model.named_parameters()
        }
        before = {name: value.detach().clone() for name, value in named.items()}
        gradients: dict[str, torch.Tensor] = {}
        for optimizer in (gan.opt_g, gan.opt_d):
            held = {id(each) for each in optimizer.param_groups[0]["params"]}
            names = [name for name, value in named.items() if id(value) in held]
            optimizer.register_step_pre_hook(
                lambda *_, names=names: gradients.update((n, named[n].grad.norm()) for n in names)
            )
        next(steps)
        changes = {name: (value - before[name]).norm() for name, value in named.items()}
        expected = {name: float(value) for name, value in gradients.items()}
        next(steps)
        table = run.controller.get_step_data("layers")
        shown = dict(zip(table["name"], table["update_norm"].tolist(), strict=True))
        assert shown == pytest.approx({k: float(v) for k, v in changes.items()}, rel=1e-4)
        shown = dict(zip(table["name"], table["grad_norm"].tolist(), strict=True))
        assert shown == pytest.approx(expected, rel=1e-4)
        for _ in steps:
            pass


def test_layers_of_an_unknown_optimizer_are_not_called_still(tmp_path: Path) -> None:
    gan = Gan()
    with gan.attach(tmp_path, "G") as run:
        run.controller.captures.viewer(Need(kind="layers"))
        for _ in gan.train(run):
            pass
        table = run.controller.get_step_data("layers")
    updates = dict(zip(table["name"], table["update_ratio"].tolist(), strict=True))
    assert {name[0] for name, value in updates.items() if value != value} == {"D"}
    assert all(value > 0 for name, value in updates.items() if name[0] == "G")
