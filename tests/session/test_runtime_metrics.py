"""Runtime metrics: right against slow twins, neutral, and no more often than their share allows."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.session.metrics.activation_zeros import ActivationZeros
from midstep.session.metrics.device_stats import DeviceStats
from midstep.session.metrics.metric_interval import MetricInterval
from midstep.session.metrics.runtime_metrics import RuntimeMetrics
from midstep.session.metrics.tensor_norms import (
    change_norm,
    copies,
    count_correct,
    gradients,
    total_norm,
)
from midstep.session.step_report import fold_names, own_values

# -- twins: slow and obvious ----------------------------------------------------------------------


def slow_norm(tensors) -> float:
    return math.sqrt(sum(float(x) ** 2 for t in tensors for x in t.double().flatten()))


def slow_zero_fraction(outputs) -> float:
    values = [float(x) for output in outputs for x in output.flatten()]
    return sum(value == 0.0 for value in values) / len(values)


def slow_accuracy(logits, labels) -> float:
    rows = zip(logits.tolist(), labels.tolist(), strict=True)
    return sum(row.index(max(row)) == label for row, label in rows) / len(labels)


def net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 4), nn.ReLU6()
    return nn.Sequential(*layers).to(dtype)


# -- norms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_norm_over_all_tensors_is_that_of_their_elements(dtype):
    torch.manual_seed(1)
    tensors = [torch.randn(shape).to(dtype) for shape in [(3, 4), (5,), (), (2, 0), (1, 2, 3)]]
    assert float(total_norm(tensors)) == pytest.approx(slow_norm(tensors), rel=1e-6)


def test_a_norm_beyond_half_precision_is_still_a_number():
    assert float(total_norm([torch.full((4,), 6e4, dtype=torch.float16)])) == pytest.approx(
        1.2e5, rel=1e-3
    )


def test_nothing_has_norm_zero():
    assert float(total_norm([])) == 0.0


def test_sparse_gradients_count_what_they_hold():
    embedding = nn.Embedding(6, 2, sparse=True)
    embedding(torch.tensor([1, 1, 4])).square().sum().backward()
    found = gradients([embedding.weight, nn.Parameter(torch.ones(1))])
    assert float(total_norm(found)) == pytest.approx(slow_norm([embedding.weight.grad.to_dense()]))


def test_the_change_of_the_weights_is_measured_up_to_a_size():
    weights = [torch.ones(4), torch.ones(4), torch.ones(4)]
    before = copies(weights, most_bytes=2 * 16)
    for weight in weights:
        weight.add_(0.5)
    moved = change_norm(before, weights)
    assert float(moved) == pytest.approx(slow_norm([torch.full((8,), 0.5)]))


def test_rows_are_right_where_their_largest_value_is_at_the_label():
    torch.manual_seed(2)
    logits, labels = torch.randn(20, 4), torch.randint(4, (20,))
    assert float(count_correct(logits, labels)) / 20 == pytest.approx(slow_accuracy(logits, labels))
    assert math.isnan(float(count_correct(logits, labels + 1)))


# -- zeros ----------------------------------------------------------------------------------------


def test_zeros_are_counted_in_training_and_only_while_watched():
    model, outputs = net(), []
    zeros = ActivationZeros(model)
    for index in (1, 4):
        model[index].register_forward_hook(lambda _m, _a, output: outputs.append(output.detach()))
    zeros.begin()
    model(torch.randn(7, 3))
    model(torch.randn(2, 3))
    zeros.end()
    expected = slow_zero_fraction(outputs)
    with torch.no_grad():
        model(torch.randn(7, 3))
    assert zeros.names == ["1", "4"]
    assert float(zeros.fraction()) == pytest.approx(expected)
    assert [len(module._forward_hooks) for module in model] == [0, 1, 0, 0, 1]


def test_an_evaluation_is_not_counted():
    model = net()
    zeros = ActivationZeros(model)
    zeros.begin()
    model.eval()(torch.randn(2, 3))
    with torch.no_grad():
        model.train()(torch.randn(2, 3))
    zeros.end()
    assert zeros.fraction() is None


def test_a_compiled_model_gets_no_hooks():
    assert ActivationZeros(torch.compile(net(), backend="eager")).names == []


# -- the whole ------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def trained(metrics_of, steps: int = 3, seen=None):
    """A few steps; what was measured, and the weights in the end."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    metrics, found, each = metrics_of(model, optimizer), [], []
    for step in range(1, steps + 1):
        if metrics is not None:
            metrics.step_begins()
        x, y = torch.randn(6, 3), torch.randint(4, (6,))
        logits = model(x)
        if metrics is not None:
            metrics.outputs(logits, y)
        nn.functional.cross_entropy(logits, y).backward()
        before = [p.detach().clone() for p in model.parameters()]
        grads = [p.grad.clone() for p in model.parameters()]
        if metrics is not None:
            metrics.before_step()
        optimizer.step()
        if metrics is not None:
            metrics.after_step()
        optimizer.zero_grad()
        if seen is not None:
            after = [p.detach().clone() for p in model.parameters()]
            seen.append((before, grads, after, logits.detach(), y))
        if metrics is not None:
            each.append(metrics.step_ended(step=step, samples=6))
            found += metrics.arrived()
    if metrics is not None:
        metrics.close()
    return found, each, [p.detach() for p in model.parameters()], torch.get_rng_state()


def test_every_measured_value_equals_its_twin():
    seen = []
    found, each, _, _ = trained(lambda *parts: RuntimeMetrics(*parts, every=1), seen=seen)
    assert [step for step, _ in found] == [1, 2, 3]
    for (_, scalars), (before, grads, after, logits, labels) in zip(found, seen, strict=True):
        moved = slow_norm([b - a for b, a in zip(before, after, strict=True)])
        assert scalars["grad_norm"] == pytest.approx(slow_norm(grads), rel=1e-5)
        assert scalars["weight_norm"] == pytest.approx(slow_norm(after), rel=1e-5)
        assert scalars["update_ratio"] == pytest.approx(moved / slow_norm(after), rel=1e-4)
        assert scalars["accuracy"] == pytest.approx(slow_accuracy(logits, labels))
        assert 0 < scalars["activation_zero_fraction"] < 1
        assert scalars["host_memory_mib"] > 1
        assert not {"device_memory_mib", "device_utilisation_percent"} & scalars.keys()  # a CPU
        assert scalars["metrics_every"] == 1
    assert all(scalars["lr"] == 1e-2 for scalars in each)
    assert all(s["throughput"] == pytest.approx(6 / s["step_time_s"]) for s in each)


def test_measuring_changes_no_bit_and_draws_no_number():
    _, _, bare, bare_random = trained(lambda *_: None)
    _, _, measured, random = trained(lambda *parts: RuntimeMetrics(*parts, every=1))
    assert all(map(torch.equal, bare, measured))
    assert torch.equal(bare_random, random)


def test_hooks_are_there_only_in_measured_steps():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics, hooks = RuntimeMetrics(model, optimizer, every=3), []
    for step in range(6):
        metrics.step_begins()
        hooks.append(sum(len(module._forward_hooks) for module in model))
        metrics.step_ended(step=step + 1, samples=1)
    assert hooks == [2, 0, 0, 2, 0, 0]


def test_a_norm_that_is_known_before_clipping_is_taken():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = RuntimeMetrics(model, optimizer, every=1)
    metrics.step_begins()
    (100 * model(torch.randn(4, 3))).sum().backward()
    known = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    metrics.before_step(known)
    metrics.after_step()
    metrics.step_ended(step=1, samples=4)
    assert float(known) > 0.1
    assert metrics.arrived()[0][1]["grad_norm"] == pytest.approx(float(known))


def test_what_only_looks_like_logits_gets_no_accuracy():
    model = net()
    metrics = RuntimeMetrics(model, torch.optim.SGD(model.parameters(), lr=0.1), every=1)
    metrics.step_begins()
    metrics.outputs(torch.randn(3, 2), torch.tensor([0, 1, 7]))  # 7 is none of two classes
    metrics.outputs(torch.randn(3, 1), torch.tensor([0, 0, 0]))
    metrics.outputs(torch.randn(3, 2), torch.rand(3))
    metrics.step_ended(step=1, samples=3)
    assert "accuracy" not in metrics.arrived()[0][1]


# -- how often ------------------------------------------------------------------------------------


def test_k_follows_from_what_measuring_and_a_step_take():
    interval = MetricInterval(share=0.01)
    for _ in range(3):
        interval.add_cost(0.002)
    interval.add_step(0.001)
    assert interval.timed_every == 2
    assert (
        interval.every == 667
    )  # of 10 µs a step 6 are used, 3 of these for timing every second one


def test_the_first_costs_hold_no_long_wait():
    interval = MetricInterval()
    interval.add_cost(10.0)  # something was loaded
    interval.add_step(0.001)
    assert interval.every <= 16


def test_a_cheap_measurement_is_made_at_every_step():
    interval = MetricInterval()
    for _ in range(3):
        interval.add_cost(1e-5)
    interval.add_step(0.01)
    assert interval.every == 1


def test_time_spent_measuring_stays_within_its_share():
    clock = Clock()
    model = net()
    metrics = RuntimeMetrics(model, torch.optim.SGD(model.parameters(), lr=0.1), clock=clock)
    begin, spent = metrics._zeros.begin, 0.0

    def costly() -> None:
        nonlocal spent
        spent += 0.05
        clock.now += 0.05
        begin()

    metrics._zeros.begin = costly
    for step in range(1, 20_001):
        metrics.step_begins()
        clock.now += 0.1
        metrics.step_ended(step=step, samples=1)
        metrics.arrived()
    assert metrics.every == 85
    assert 0.005 < spent / clock.now < 0.0075


def test_short_steps_are_not_each_timed_but_those_that_are_tell_the_truth():
    clock = Clock()
    model = net()
    metrics = RuntimeMetrics(model, torch.optim.SGD(model.parameters(), lr=0.1), clock=clock)
    begin, told = metrics._zeros.begin, []

    def costly() -> None:
        clock.now += 0.001
        begin()

    metrics._zeros.begin = costly
    for step in range(1, 2001):
        metrics.step_begins()
        clock.now += 0.0004
        told.append(metrics.step_ended(step=step, samples=8))
        metrics.arrived()
    timed = [known for known in told if known]
    assert 2000 / 4 <= len(timed) < 2000 / 3 + 100
    assert all(known["step_time_s"] == pytest.approx(0.0004) for known in timed)
    assert all(known["lr"] == 0.1 for known in timed)


def test_a_failing_measurement_is_logged_once_and_training_continues(caplog):
    model = net()
    metrics = RuntimeMetrics(model, torch.optim.SGD(model.parameters(), lr=0.1), every=1)

    def fail() -> None:
        raise RuntimeError("no hooks here")

    metrics._zeros.begin = fail
    for step in range(1, 4):
        metrics.step_begins()
        assert not metrics.measuring
        assert metrics.step_ended(step=step, samples=8)["lr"] == 0.1
        assert not metrics.arrived()
    assert [record.message for record in caplog.records] == [
        "measuring the step failed and is off; training continues"
    ]


def test_an_impossible_share_is_refused():
    with pytest.raises(ConfigError, match="share must be above 0"):
        MetricInterval(share=0.0)


# -- device and names -----------------------------------------------------------------------------


def test_device_stats_are_read_once_a_second():
    clock = Clock()
    stats = DeviceStats(torch.device("cpu"), clock=clock)
    first = stats.read()
    assert stats.read() is first
    clock.now = 1.0
    assert stats.read() is not first
    assert first.keys() == {"host_memory_mib", "cpu_percent"}  # no use of a device that is none


def test_without_psutil_the_process_table_tells_the_memory(monkeypatch):
    known = DeviceStats(torch.device("cpu")).read()["host_memory_mib"]
    monkeypatch.setitem(__import__("sys").modules, "psutil", None)
    assert DeviceStats(torch.device("cpu")).read()["host_memory_mib"] == pytest.approx(
        known, rel=0.2
    )


def test_names_are_folded_where_scalars_enter():
    given = {"acc": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0, "tokens_per_sec": 9.0}
    assert own_values(given) == {
        "accuracy": 0.5,
        "lr": 0.1,
        "grad_norm": 2.0,
        "throughput": 9.0,
    }
    assert fold_names({"top1": 0.5, "loss": 1.0}) == {"accuracy": 0.5, "loss": 1.0}
    assert fold_names({"accuracy": 0.75, "acc": 0.5}) == {"accuracy": 0.75}
