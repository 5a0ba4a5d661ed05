"""Runtime metrics of an attached loop: in the facts, and behind what the user logs."""

from __future__ import annotations

import torch
from torch import nn

from midstep.facts import SeriesStore
from midstep.live import attach
from tests.live.test_attach import series
from tests.live.trainer import Plain


def names(directory) -> set[str]:
    store = SeriesStore(directory)
    store.refresh()
    return set(store.names)


def test_times_come_with_timed_steps_and_norms_with_measured_ones(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        plain.train(run)
    timed = list(series(run.dir, "step_time_s")[0])
    assert timed[:2] == [1, 2]  # before their length is known each is timed
    assert set(timed) <= set(range(1, 13))
    assert list(series(run.dir, "throughput")[0]) == timed
    assert list(series(run.dir, "lr")[0]) == list(range(1, 13))  # repeated steps are compared by it
    steps, every = series(run.dir, "metrics_every")
    assert steps[0] == 1
    assert min(every) >= 1
    for name in ("grad_norm", "weight_norm", "update_ratio", "host_memory_mib"):
        assert series(run.dir, name)[0] == steps


def test_accuracy_is_told_where_a_declared_loss_gets_logits_and_classes(tmp_path):
    plain, criterion, right = Plain(), nn.CrossEntropyLoss(), []
    model = nn.Linear(2, 24)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with attach(model, optimizer, plain.loader, loss_fn=criterion, save_dir=tmp_path) as run:
        for x, y in plain.loader:
            logits = model(x)
            right.append(float((logits.argmax(1) == y).float().mean()))
            criterion(logits, y).backward()
            optimizer.step()
            optimizer.zero_grad()
    steps, told = series(run.dir, "accuracy")
    assert told == [right[step - 1] for step in steps]
    assert steps[0] == 1


def test_what_the_user_logs_goes_before_what_is_measured(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for x, _y in plain.loader:
            plain.step(x)
            run.log(gradient_norm=7.0, acc=0.25)
    assert series(run.dir, "grad_norm")[1] == [7.0] * 6
    assert series(run.dir, "accuracy")[1] == [0.25] * 6
    assert "gradient_norm" not in names(run.dir)
