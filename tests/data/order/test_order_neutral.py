"""A whole training under policy `user`: the same batches, losses and weights, bit for bit."""

from __future__ import annotations

import pytest

from midstep.data.order.order_strategy import OrderConfig
from midstep.data.order.ordered_loader import OrderedLoader
from tests.checkers.neutral import Condition, Scene, Trace, Training, assert_neutral
from tests.checkers.trainings import conv_net, small_transformer


def ordered(training: Training, trace: Trace, _scene: Scene) -> None:
    """The bare loop over a loader with a policy."""
    config = OrderConfig(enforce_sampler_state=False)  # workers may augment here
    with OrderedLoader(training.loader, config, report=lambda _text: None) as order:
        for _ in range(training.epochs):
            for batch in training.loader:
                loss = training.loss(training.model, batch)
                loss.backward()
                training.optimizer.step()
                training.optimizer.zero_grad()
                order.commit()
                trace.step(training, batch, loss)


@pytest.mark.parametrize("training", [conv_net, small_transformer])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=str)
def test_a_training_under_policy_user_stays_the_same(training, workers, tmp_path):
    assert_neutral(lambda: training(**workers), ordered, tmp_path, {"ordered": Condition()})
