"""Rules on real models: a healthy training trips none, each planted fault trips exactly its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from midstep.control import DebugController
from midstep.control.breakpoints.rule_catalog import RULES
from midstep.facts import FactsReader
from midstep.session import Run
from tests.session.hooked import hook_count, hooked, mlp, train, transformer

TARGET = torch.linspace(-1, 1, 8)


def vectors(index: int) -> torch.Tensor:
    return torch.randn(32, 8, generator=torch.Generator().manual_seed(index))


def sequences(index: int) -> torch.Tensor:
    return torch.randn(8, 5, 8, generator=torch.Generator().manual_seed(index))


def regression(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(model(x).squeeze(-1), torch.sin(x @ TARGET))


@dataclass
class Marks:
    """A sink that keeps the marks."""

    found: list[dict[str, Any]]

    def log_values(self, step: int, values: Any) -> None:
        """Scalars are not looked at."""

    def event(self, moment: Any, **fields: Any) -> None:
        if fields.get("kind") == "mark":
            self.found.append(fields)


def tripped(
    model: nn.Module,
    *,
    steps: int,
    optimizer: torch.optim.Optimizer | None = None,
    loss_of: Callable[[nn.Module, torch.Tensor], torch.Tensor] = regression,
    inputs: Callable[[int], torch.Tensor] = vectors,
    **settings: dict[str, Any],
) -> list[dict[str, Any]]:
    """Marks that all rules leave on this training; `settings` by rule in place of defaults."""
    made = optimizer or torch.optim.Adam(model.parameters(), lr=3e-3)
    with hooked(model, made) as (control, _board, told):
        for rule in RULES:
            control.breakpoints.add_rule(rule, action="mark", **settings.get(rule, {}))
        marks = Marks([])
        control.sinks.add(marks)
        train(control, model, made, steps, loss_of=loss_of, inputs=inputs)
        assert told == []
    assert hook_count(model) == 0
    return marks.found


def validated(model: nn.Module, control: DebugController, every: int) -> Callable[..., Any]:
    """The loss, with a validation logged every so many steps."""
    calls = 0

    def loss_of(_model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls % every == 0:
            with torch.no_grad():
                control.boundary.log_outside_step(
                    {"val_loss": regression(model, vectors(10_000)).item()}
                )
        return regression(model, x)

    return loss_of


@pytest.mark.parametrize(
    ("make", "inputs"),
    [(mlp, vectors), (lambda: mlp(nn.Tanh), vectors), (transformer, sequences)],
    ids=["relu", "tanh", "transformer"],
)
def test_a_healthy_training_trips_no_rule_in_500_steps(make, inputs) -> None:
    assert tripped(make(), steps=500, inputs=inputs) == []


def test_a_healthy_training_with_sgd_and_validation_trips_no_rule() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with hooked(model, optimizer) as (control, _board, _told):
        made = [control.breakpoints.add_rule(rule, action="mark") for rule in RULES]
        loss_of = validated(model, control, every=25)
        train(control, model, optimizer, 500, loss_of=loss_of, inputs=vectors)
    assert {each.condition.rule: each.hits for each in made if each.hits} == {}


# -- planted faults -------------------------------------------------------------------------------


def deep_sigmoid() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(8, 16)]
    for _ in range(8):
        layers += [nn.Sigmoid(), nn.Linear(16, 16)]
    return nn.Sequential(*layers, nn.Sigmoid(), nn.Linear(16, 1))


def with_dead_units() -> nn.Sequential:
    model = mlp()
    with torch.no_grad():
        model[2].bias[:12] = -100.0
    return model


def saturated() -> nn.Sequential:
    model = mlp(nn.Tanh)
    with torch.no_grad():
        model[2].weight *= 30.0
        model[2].bias += 8.0
    return model


def frozen_by_mistake() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = mlp()
    parameters = [p for name, p in model.named_parameters() if not name.startswith("2.")]
    return model, torch.optim.Adam(parameters, lr=3e-3)


class Gated(nn.Module):
    """A branch that is multiplied by zero."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.branch = mlp(), nn.Linear(8, 1)
        self.register_buffer("gate", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.gate * self.branch(x)


def rules_of(marks: list[dict[str, Any]]) -> set[str]:
    return {mark["rule"] for mark in marks}


def test_vanishing_gradients_are_found_in_the_first_layer() -> None:
    marks = tripped(deep_sigmoid(), steps=30)
    assert rules_of(marks) == {"vanishing_gradients"}
    assert marks[0]["layer"] == "0.weight"
    assert marks[0]["value"] < marks[0]["limit"] == 1e-4
    assert marks[0]["step"] == 30


def test_exploding_gradients_name_the_layer_that_spikes() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        loss = regression(model, x)
        return loss * 1e6 if x.sum() == vectors(20).sum() else loss

    model = mlp()
    # A step that large would move the weights as well, which is another rule's matter.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.0, 0.9))
    marks = tripped(model, steps=40, loss_of=loss_of, optimizer=optimizer)
    assert rules_of(marks) == {"exploding_gradients"}
    assert marks[0]["step"] == 21
    assert marks[0]["layer"].endswith("weight")
    assert marks[0]["value"] > marks[0]["limit"]


def test_dead_relus_are_counted_in_their_layer() -> None:
    marks = tripped(with_dead_units(), steps=40)
    assert rules_of(marks) == {"dead_relus"}
    assert (marks[0]["layer"], marks[0]["limit"]) == ("3", 0.5)
    assert marks[0]["value"] >= 12 / 16


def test_saturated_activations_are_found_in_their_layer() -> None:
    marks = tripped(saturated(), steps=30)
    assert rules_of(marks) == {"saturated_activations"}
    assert marks[0]["layer"] == "3"
    assert marks[0]["value"] > 0.8


def test_an_output_that_saturates_is_no_fault() -> None:
    model = nn.Sequential(mlp(), nn.Sigmoid())
    with torch.no_grad():
        model[0][4].bias += 20.0

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return regression(model[0], x) + 0.0 * model(x).mean()

    found = tripped(model, steps=30, loss_of=loss_of)
    assert "saturated_activations" not in rules_of(found)


def test_a_loss_that_does_not_fall_is_found() -> None:
    def noise(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        labels = torch.sign(torch.sin(x.sum(dim=1) * 1e4))
        return nn.functional.mse_loss(model(x).squeeze(-1) * 0.01, labels)

    marks = tripped(mlp(), steps=120, loss_of=noise, loss_not_falling={"window": 100})
    assert rules_of(marks) == {"loss_not_falling"}
    assert marks[0]["layer"] is None
    assert marks[0]["value"] < marks[0]["limit"]


def test_weights_that_the_optimizer_does_not_know_are_found() -> None:
    model, optimizer = frozen_by_mistake()
    # Weights that no known optimizer holds are compared with those of the measurement before.
    marks = tripped(model, steps=40, optimizer=optimizer)
    assert rules_of(marks) == {"unchanged_weights"}
    assert marks[0]["layer"] == "2.weight"
    assert "2.bias" in marks[0]["note"]


def test_a_branch_that_gets_no_gradient_is_found_as_zero() -> None:
    marks = tripped(Gated(), steps=30)
    assert rules_of(marks) == {"all_zero_tensors"}
    assert marks[0]["layer"] == "branch.weight"
    assert "gradient" in marks[0]["note"]


def test_what_is_not_finite_is_found_where_it_began() -> None:
    model = mlp()

    def spoil(_module: nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output / 0.0 if spoiled else None

    spoiled = False
    model[2].register_forward_hook(spoil)

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        nonlocal spoiled
        spoiled = bool(x.sum() == vectors(12).sum())
        return regression(model, x)

    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with hooked(model, optimizer) as (control, _board, _told):
        for rule in RULES:
            control.breakpoints.add_rule(rule, action="mark")
        marks = Marks([])
        control.sinks.add(marks)
        train(control, model, optimizer, 25, loss_of=loss_of, inputs=vectors)
    assert rules_of(marks.found) == {"nonfinite_layer"}
    assert [(m["layer"], m["step"]) for m in marks.found] == [("2", 13)]
    assert "output" in marks.found[0]["note"]


def test_updates_too_large_for_their_weights_are_found() -> None:
    model = mlp()
    groups = [
        {"params": [model[2].weight], "lr": 0.2},
        {"params": [p for p in model.parameters() if p is not model[2].weight]},
    ]
    optimizer = torch.optim.Adam(groups, lr=1e-3)
    settings = {"every": 1, "window": 1}
    marks = tripped(model, steps=8, optimizer=optimizer, update_ratio=settings)
    assert rules_of(marks) == {"update_ratio"}
    assert [(mark["layer"], mark["limit"]) for mark in marks] == [("2.weight", 0.3)]


def test_updates_that_rounding_will_eat_are_found() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    marks = tripped(model, steps=6, optimizer=optimizer, update_ratio={"every": 1, "low": 1e-4})
    assert rules_of(marks) == {"update_ratio"}
    assert marks[0]["value"] < marks[0]["limit"] == 1e-4


def test_overfitting_is_found_when_validation_rises_and_training_falls() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    few = vectors(0)[:8]
    wrong = torch.randn(8, generator=torch.Generator().manual_seed(5))
    with hooked(model, optimizer) as (control, _board, _told):
        made = {rule: control.breakpoints.add_rule(rule, action="mark") for rule in RULES}
        steps = 0

        def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            nonlocal steps
            steps += 1
            if steps % 5 == 0:
                with torch.no_grad():
                    control.boundary.log_outside_step({"val_loss": regression(model, vectors(77))})
            return nn.functional.mse_loss(model(x).squeeze(-1), wrong)

        train(control, model, optimizer, 100, loss_of=loss_of, inputs=lambda _: few)
    assert {rule for rule, each in made.items() if each.hits} == {"overfitting"}


# -- pausing, and what a hit says -----------------------------------------------------------------


def test_a_rule_pauses_with_evidence_and_an_explanation(tmp_path) -> None:
    model = with_dead_units()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with Run(name="dead", save_dir=tmp_path) as run:
        run.show(model=model, optimizer=optimizer)
        control = run.controller
        stopper = control.breakpoints.add_rule("dead_relus")
        seen: list[dict[str, Any]] = []

        def notice() -> None:
            state = control.get_state()
            if state["parked"] and state["breakpoint"] is not None and not seen:
                seen.append(state["breakpoint"])
                control.resume()

        control.sinks.subscribe(notice)
        train(control, model, optimizer, 40, loss_of=regression, inputs=vectors)
    assert (stopper.hits, len(seen)) == (1, 1)
    evidence = seen[0]
    assert (evidence["layer"], evidence["rule"], evidence["step"]) == ("3", "dead_relus", 20)
    assert evidence["explanation"]["causes"]
    assert "zero for every sample" in evidence["explanation"]["means"]
    kept = [e for e in FactsReader(run.dir).events() if e.get("kind") == "breakpoint"]
    assert [(e["layer"], e["rule"]) for e in kept] == [("3", "dead_relus")]


def test_marks_are_facts_of_the_run(tmp_path) -> None:
    model = with_dead_units()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with Run(name="marked", save_dir=tmp_path) as run:
        run.show(model=model, optimizer=optimizer)
        run.controller.breakpoints.add_rule("dead_relus", action="mark")
        train(run.controller, model, optimizer, 40, loss_of=regression, inputs=vectors)
    kept = [e for e in FactsReader(run.dir).events() if e.get("kind") == "mark"]
    assert [(e["step"], e["layer"], e["action"]) for e in kept] == [(20, "3", "mark")]
    assert kept[0]["explanation"]["advice"]


def test_rules_measure_only_in_the_steps_in_which_they_are_due(monkeypatch) -> None:
    from midstep.session.hooks import rule_probe

    model, made = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    whole = rule_probe.StepNorms

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(kwargs)
        return whole(*args, **kwargs)

    monkeypatch.setattr(rule_probe, "StepNorms", counted)
    with hooked(model, optimizer) as (control, _board, _told):
        added = control.breakpoints.add_rule("vanishing_gradients", every=4)
        train(control, model, optimizer, 12, loss_of=regression, inputs=vectors)
        assert made == [{"updates": False}] * 3  # gradients alone need no clone of the weights
        assert hook_count(model) == 0
    assert added.describe()["cost_s"] > 0


def test_a_rule_about_layers_says_that_it_has_no_model() -> None:
    control = DebugController()
    made = control.breakpoints.add_rule("dead_relus", every=2)
    for index in range(3):
        control.capture_batch(None, 1.0, index)
        control.wait_if_paused()
    assert "attach" in made.describe()["missing"][0]
