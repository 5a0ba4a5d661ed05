"""Hooks for any model: right numbers, nothing left behind, nothing changed, faults kept inside."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from midstep import hooks as ready_made
from midstep.control import Panel
from midstep.control.capture.subscriptions import Need
from midstep.control.panels import panel_problem
from midstep.core.errors import ConfigError
from midstep.session import Run
from midstep.session.hooks import Hook, hook_measures
from midstep.session.hooks.attention import attention_weights
from tests.control.loop import IN_VIEW
from tests.session.hooked import hook_count, hooked, mlp, train, transformer

ALL = (
    ready_made.LayerNorms,
    ready_made.LayerNormSeries,
    ready_made.ActivationStatistics,
    ready_made.DeadUnits,
    ready_made.AttentionEntropy,
    ready_made.WeightCosine,
)


def every_hook(layer: str) -> list[Hook]:
    return [*(kind() for kind in ALL), ready_made.Units(layer)]


def squared(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


def vectors(index: int) -> torch.Tensor:
    return torch.randn(32, 8, generator=torch.Generator().manual_seed(index))


def sequences(index: int) -> torch.Tensor:
    return torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(index))


def look(model: nn.Module, *hooks: Hook, steps: int = 2, inputs=vectors):
    """What the page would show after some steps with somebody there."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with hooked(model, optimizer, *hooks) as (control, _board, told):
        control.captures.viewer(*IN_VIEW)
        control._state.clock = itertools.count().__next__  # every step is shown
        train(control, model, optimizer, steps, loss_of=squared, inputs=inputs)
        assert told == []
        return control.captures.reader.shown()


# -- what they show -------------------------------------------------------------------------------


def test_every_hook_pushes_data_that_fits_its_panel() -> None:
    shown = look(mlp(), *every_hook("2"))
    expected = {hook.key for hook in every_hook("2")} - {"attention entropy"}
    assert set(shown.values) == set(shown.panels) == expected
    assert {
        key: panel_problem(panel, shown.values[key]) for key, panel in shown.panels.items()
    } == (dict.fromkeys(expected))


def test_activation_statistics_are_those_of_a_direct_computation() -> None:
    model = mlp(nn.Tanh)
    table = look(model, ready_made.ActivationStatistics(), steps=1).values["activations"]
    model = mlp(nn.Tanh)
    x, expected = vectors(0), []
    for module in model:
        x = module(x).detach()
        flat = (x.abs() >= 0.98).double().mean() if isinstance(module, nn.Tanh) else math.nan
        numbers = [x.double().mean(), x.double().std(correction=0), (x == 0).double().mean(), flat]
        expected.append([float(number) for number in numbers])
    assert table["kind"] == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
    found = [list(row) for row in zip(*(table[k].tolist() for k in COLUMNS), strict=True)]
    for row, twin in zip(found, expected, strict=True):
        assert row == pytest.approx(twin, rel=1e-4, abs=1e-6, nan_ok=True)


COLUMNS = ("mean", "std", "zero", "saturated")


def test_accumulated_passes_count_alike() -> None:
    hook = ready_made.ActivationStatistics()
    halves = torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 8.0]])
    for half in halves:
        hook.forward("0", nn.Linear(2, 2), (), {}, half)
    table = hook.after_step(nn.Identity())
    whole = torch.cat(halves)
    assert table["mean"].item() == pytest.approx(whole.mean().item())
    assert table["std"].item() == pytest.approx(whole.std(correction=0).item())
    assert (table["low"].item(), table["high"].item()) == (1.0, 8.0)


def test_a_unit_is_dead_once_it_was_quiet_for_long_enough() -> None:
    model = mlp()
    with torch.no_grad():
        model[2].bias[:4] = -100.0
    for steps, dead in ((2, 0), (3, 4)):
        table = look(model, ready_made.DeadUnits(steps=3), steps=steps).values["dead units"]
        assert table["name"] == ["1", "3"]
        assert table["dead"][1] == dead
    assert table["units"] == [16, 16]


def test_units_of_a_picture_are_its_channels() -> None:
    picture = torch.zeros(2, 3, 4, 4)
    picture[1, 2, 0, 0] = 1.0
    assert hook_measures.alive_units(picture).tolist() == [False, False, True]
    assert hook_measures.alive_units(picture[:, :, 0]).tolist() == [True, False, False, False]


def test_units_show_their_layer_row_by_row_and_name_it_for_watches() -> None:
    model = mlp()
    shown = look(model, ready_made.Units("2", activation="3"))
    table = shown.values["units of 2"]
    assert shown.panels["units of 2"].source == "2.weight"
    assert torch.equal(table["weight_norm"], model[2].weight.detach().norm(dim=1))
    assert table["fraction_active"].shape == (16,)


def test_row_cosines_are_those_of_a_slow_twin() -> None:
    weight = torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(3))
    rows = weight.double().flatten(1)
    cosines = [
        float(torch.dot(a, b) / (a.norm() * b.norm()))
        for i, a in enumerate(rows)
        for j, b in enumerate(rows)
        if i != j
    ]
    found = hook_measures.row_cosines(weight).tolist()
    assert found == pytest.approx([sum(cosines) / len(cosines), max(cosines)], rel=1e-5)
    assert all(map(math.isnan, hook_measures.row_cosines(weight[:1]).tolist()))


# -- attention ------------------------------------------------------------------------------------


def slow_entropy(weights: torch.Tensor) -> list[float]:
    batch, heads, queries, _ = weights.shape
    found = []
    for head in range(heads):
        total = 0.0
        for b in range(batch):
            for t in range(queries):
                total -= sum(p * math.log(p) for p in weights[b, head, t].tolist() if p > 0)
        found.append(total / (batch * queries))
    return found


def test_attention_entropy_is_that_of_a_slow_twin() -> None:
    weights = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    found = hook_measures.attention_entropy(weights)
    assert found[:, 0].tolist() == pytest.approx(slow_entropy(weights), rel=1e-5)
    uniform = torch.full((1, 1, 2, 8), 1 / 8)
    assert hook_measures.attention_entropy(uniform)[0].tolist() == pytest.approx(
        [math.log(8), 1 / 8]
    )


def test_both_kinds_of_attention_are_seen_and_named() -> None:
    shown = look(transformer(), ready_made.AttentionEntropy(), inputs=sequences)
    table = shown.values["attention entropy"]
    names = ["own head 0", "own head 1", "layer.self_attn head 0", "layer.self_attn head 1"]
    assert table["name"] == names
    assert ((table["entropy"] > 0) & (table["entropy"] < math.log(5))).all()


def test_the_weights_are_those_that_multihead_attention_gives_itself() -> None:
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), sequences(0)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    _, expected = attention(x, x, x, attn_mask=mask, average_attn_weights=False)
    seen: list[torch.Tensor] = []
    hook = ready_made.AttentionEntropy()
    hook._note = seen.append  # type: ignore[method-assign]
    handles = hook.install(attention, lambda work: work())
    attention(x, x, x, attn_mask=mask, need_weights=False)
    for handle in handles:
        handle.remove()
    assert torch.allclose(seen[0], expected.detach(), atol=1e-6)


@pytest.mark.parametrize("masked", ["none", "causal", "bool", "float"])
def test_fused_weights_times_values_are_what_the_fused_function_gives(masked: str) -> None:
    fused = nn.functional.scaled_dot_product_attention
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(2, 4, 6, 8, generator=generator) for _ in range(3))
    choice = torch.ones(6, 6, dtype=torch.bool).tril()
    settings = {
        "none": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": choice.expand(2, 1, 6, 6)},
        "float": {"attn_mask": torch.randn(6, 6, generator=generator), "scale": 0.3},
    }[masked]
    weights = attention_weights(fused, (query, key, value), settings)
    assert torch.allclose(weights @ value, fused(query, key, value, **settings), atol=1e-5)


def test_grouped_queries_are_seen_too() -> None:
    fused = nn.functional.scaled_dot_product_attention
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(1, 4, 3, 8, generator=generator)
    key = torch.randn(1, 2, 3, 8, generator=generator)
    weights = attention_weights(fused, (query, key, key), {"enable_gqa": True})
    expected = fused(query, key, key, enable_gqa=True)
    assert torch.allclose(weights @ key.repeat_interleave(2, dim=1), expected, atol=1e-5)


def test_a_forward_that_raises_leaves_no_listener_behind() -> None:
    model = transformer()
    hook = ready_made.AttentionEntropy()
    handles = hook.install(model, lambda work: work())
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 2, 3))
    assert hook._mode is None
    for handle in handles:
        handle.remove()


# -- nobody watches, nothing changes --------------------------------------------------------------


def test_nothing_hangs_on_the_model_while_nobody_watches() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    asked: list[str] = []

    class Counting(Hook):
        key = "counting"

        def modules(self, model: nn.Module):
            return model.named_modules()

        def before_step(self, model: nn.Module) -> None:
            asked.append("before")

    with hooked(model, optimizer, Counting(), *every_hook("0")) as (control, _board, _told):
        train(control, model, optimizer, 3, loss_of=squared, inputs=vectors)
        assert (hook_count(model), asked) == (0, [])
        control._state.clock = itertools.count().__next__  # every step is shown
        viewer = control.captures.viewer(*IN_VIEW)
        train(control, model, optimizer, 3, loss_of=squared, inputs=vectors)
        assert hook_count(model) > 0
        assert asked == ["before"] * 3
        viewer.close()
        train(control, model, optimizer, 2, loss_of=squared, inputs=vectors)
        assert (hook_count(model), asked) == (0, ["before"] * 3)


@pytest.mark.parametrize(("make", "inputs"), [(mlp, vectors), (transformer, sequences)])
def test_hooks_change_neither_weights_nor_generators(make, inputs) -> None:
    def run(watched: bool) -> tuple[list[torch.Tensor], torch.Tensor]:
        model = make()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        layer = "2" if isinstance(model, nn.Sequential) else "head"
        hooks = every_hook(layer) if watched else []
        with hooked(model, optimizer, *hooks) as (control, _board, told):
            if watched:
                control.captures.viewer(*IN_VIEW)
                for rule in ("nonfinite_layer", "update_ratio", "dead_relus"):
                    control.breakpoints.add_rule(rule, every=1, action="mark")
            train(control, model, optimizer, 5, loss_of=squared, inputs=inputs)
            assert told == []
        return [p.detach().clone() for p in model.parameters()], torch.get_rng_state()

    (bare, bare_state), (looked_at, state) = run(False), run(True)
    assert all(torch.equal(a, b) for a, b in zip(bare, looked_at, strict=True))
    assert torch.equal(bare_state, state)


def test_the_optimizer_has_hooks_only_while_steps_are_shown() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def on_optimizer() -> int:
        return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)

    with hooked(model, optimizer, ready_made.LayerNorms()) as (control, manager, _failures):
        control._state.clock = itertools.count().__next__  # every step is shown
        train(control, model, optimizer, 2, loss_of=squared, inputs=vectors)
        assert on_optimizer() == 0
        with control.captures.viewer(*IN_VIEW):
            train(control, model, optimizer, 2, loss_of=squared, inputs=vectors)
            assert on_optimizer() == 2
            manager.remove("layers")
            train(control, model, optimizer, 2, loss_of=squared, inputs=vectors)
            assert on_optimizer() == 0
            manager.add(ready_made.LayerNorms())
            train(control, model, optimizer, 2, loss_of=squared, inputs=vectors)
            assert on_optimizer() == 2
        train(control, model, optimizer, 4, loss_of=squared, inputs=vectors)
        assert on_optimizer() == 0


def test_dear_hooks_run_only_in_the_steps_that_are_shown(monkeypatch) -> None:
    clock = iter(range(10_000))  # every look at the clock takes a second
    monkeypatch.setattr("midstep.session.hooks.installed_hook.time.perf_counter", clock.__next__)
    model, asked = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    class Dear(Hook):
        key = "dear"

        def before_step(self, model: nn.Module) -> None:
            asked.append(control.boundary.finished_steps)

    with hooked(model, optimizer, Dear()) as (control, _board, _told):
        control._state.clock = lambda: control.boundary.finished_steps / 4.9
        control.captures.viewer(*IN_VIEW)
        train(control, model, optimizer, 21, loss_of=squared, inputs=vectors)
    assert asked == [0, 6, 12, 18]  # once a second, as nobody reads it


@pytest.mark.parametrize(
    ("in_view", "pushed"),
    [
        ([Need(kind="layers")], {"layers"}),
        ([Need(kind="step_data", key="activations")], {"activations"}),
        ([Need(kind="step_data")], {"layers", "activations"}),
        ([Need(kind="batch", count=8), Need(kind="step_data", key="other")], set()),
        ([], set()),
    ],
    ids=["layers", "one key", "list of keys", "other things", "nothing"],
)
def test_a_hook_runs_while_its_key_or_the_list_of_keys_is_in_view(in_view, pushed) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hooks = ready_made.LayerNorms(), ready_made.ActivationStatistics()
    with hooked(model, optimizer, *hooks) as (control, _board, _told):
        control._state.clock = itertools.count().__next__
        control.captures.viewer(*in_view)
        train(control, model, optimizer, 3, loss_of=squared, inputs=vectors)
        assert set(control.captures.reader.shown().values) == pushed
        assert hook_count(model) == 0 or "activations" in pushed
        assert control.get_state()["step_data_offered"] == ["layers", "activations"]


def test_validation_passes_are_not_looked_at() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with hooked(model, optimizer, ready_made.ActivationStatistics()) as (control, _board, _told):
        control.captures.viewer(*IN_VIEW)
        control.boundary.enter()
        with torch.no_grad():
            model(vectors(0))
        squared(model, vectors(1) * 0 + 1).backward()
        optimizer.step()
        table = control.get_step_data("activations")
        assert table["std"][-1].item() == pytest.approx(0.0, abs=1e-5)


def test_a_compiled_model_is_left_alone() -> None:
    model = mlp()
    model._orig_mod = model[0]  # what torch.compile leaves on its wrapper
    hook = ready_made.ActivationStatistics()
    assert list(hook.modules(model)) == []
    assert ready_made.AttentionEntropy().install(model, lambda work: work()) == []


# -- faults ---------------------------------------------------------------------------------------


class Failing(Hook):
    """Raises at one of the moments."""

    key = "failing"

    def __init__(self, moment: str) -> None:
        self.moment, self.calls = moment, 0

    def modules(self, model: nn.Module):
        return [("0", model[0])]

    def _raise(self, moment: str) -> None:
        self.calls += moment == self.moment
        if moment == self.moment:
            raise ZeroDivisionError("by a hook")

    def begin_step(self, model: nn.Module) -> None:
        self._raise("begin_step")

    def forward(self, name, module, args, kwargs, output) -> None:
        self._raise("forward")

    def before_step(self, model: nn.Module) -> None:
        self._raise("before_step")

    def after_step(self, model: nn.Module) -> None:
        self._raise("after_step")


@pytest.mark.parametrize("moment", ["begin_step", "forward", "before_step", "after_step"])
def test_a_hook_that_raises_is_switched_off_told_once_and_training_goes_on(
    moment, caplog, monkeypatch
) -> None:
    # Else the time of its traceback alone would keep it from being asked again.
    monkeypatch.setattr("midstep.session.hooks.hook_manager.SHARE", math.inf)
    model, hook = mlp(), Failing(moment)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with hooked(model, optimizer, hook, ready_made.LayerNorms()) as (control, _board, told):
        control.captures.viewer(*IN_VIEW)
        train(control, model, optimizer, 4, loss_of=squared, inputs=vectors)
        assert control.boundary.finished_steps == 4
        assert "layers" in control.captures.reader.shown().values
    assert (hook.calls, told) == (1, [("failing", "ZeroDivisionError: by a hook")])
    assert len([r for r in caplog.records if "'failing' failed and is off" in r.message]) == 1
    assert hook_count(model) == 0


def test_attention_that_cannot_be_read_switches_the_hook_off_and_not_the_pass(monkeypatch) -> None:
    def broken(*_):
        raise ZeroDivisionError("odd attention")

    monkeypatch.setattr("midstep.session.hooks.attention.attention_weights", broken)
    model = transformer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with hooked(model, optimizer, ready_made.AttentionEntropy()) as (control, _board, told):
        control.captures.viewer(*IN_VIEW)
        train(control, model, optimizer, 3, loss_of=squared, inputs=sequences)
    assert told == [("attention entropy", "ZeroDivisionError: odd attention")]


def test_a_fault_is_a_fact_of_the_run(tmp_path) -> None:
    from midstep.facts import FactsReader

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Run(name="faulty", save_dir=tmp_path) as run:
        run.show(Failing("before_step"), model=model, optimizer=optimizer)
        run.controller.captures.viewer(*IN_VIEW)
        train(run.controller, model, optimizer, 3, loss_of=squared, inputs=vectors)
    events = [e for e in FactsReader(run.dir).events() if e.get("kind") == "hook_off"]
    assert [(e["hook"], e["why"]) for e in events] == [("failing", "ZeroDivisionError: by a hook")]
    assert optimizer._optimizer_step_pre_hooks == {}


# -- showing and hiding ---------------------------------------------------------------------------


def test_a_run_needs_to_know_the_model_once(tmp_path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Run(name="shown", save_dir=tmp_path) as run:
        with pytest.raises(ConfigError, match="model="):
            run.show(ready_made.LayerNorms())
        run.show(model=model, optimizer=optimizer)
        run.show(ready_made.LayerNorms(), ready_made.DeadUnits())
        run.controller.captures.viewer(*IN_VIEW)
        every_step_is_shown = itertools.count().__next__
        run.controller._state.clock = every_step_is_shown
        for expected in (["layers", "dead units"], ["layers"]):
            train(run.controller, model, optimizer, 2, loss_of=squared, inputs=vectors)
            assert list(run.controller.captures.reader.shown().values) == expected
            run.hide("dead units")
    assert hook_count(model) == 0


def test_what_is_no_hook_or_has_no_name_is_refused() -> None:
    model = mlp()
    with hooked(model, torch.optim.SGD(model.parameters(), lr=0.1)) as (_control, board, _told):
        with pytest.raises(ConfigError, match=r"midstep\.Hook"):
            board.add("layers")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="has no key"):
            board.add(Hook())
        with pytest.raises(ConfigError, match="no module 'encoder'"):
            board.add(ready_made.Units("encoder"))


def test_what_the_loop_pushes_itself_is_left_alone() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with hooked(model, optimizer, ready_made.LayerNorms()) as (control, _board, _told):
        control.captures.viewer(*IN_VIEW)
        control.boundary.enter()
        control.capture_step_data("layers", "mine", panel=Panel(kind="text"))
        squared(model, vectors(0)).backward()
        optimizer.step()
        assert control.get_step_data("layers") == "mine"


def test_a_session_shows_its_hooks(tmp_path) -> None:
    from midstep import Session, SessionConfig

    model = mlp()
    data = torch.utils.data.TensorDataset(torch.cat([vectors(0), vectors(1)]), torch.zeros(64, 1))
    config = SessionConfig(save_dir=tmp_path, run_name="shown", seed=0)
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Session(model, optimizer, nn.MSELoss(), loader, config=config) as session:
        session.show(ready_made.ActivationStatistics(), ready_made.WeightCosine())
        session.controller.captures.viewer(*IN_VIEW)
        rule = session.controller.breakpoints.add_rule("dead_relus", every=1, action="mark")
        session.fit(steps=4)
        shown = session.controller.captures.reader.shown()
        assert set(shown.values) == {"layers", "activations", "weight cosine"}
        assert rule.describe()["missing"] == []
    assert hook_count(model) == 0
    assert optimizer._optimizer_step_pre_hooks == {}
