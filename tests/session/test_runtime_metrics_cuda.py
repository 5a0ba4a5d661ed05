"""On a GPU: nothing waits for the device, values arrive later under the step they belong to."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from midstep.session.metrics.runtime_metrics import RuntimeMetrics

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    # Torch says of this mode itself that it does not see every wait; those it sees are enough.
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]


def test_measuring_never_waits_for_the_device_and_values_come_under_their_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    metrics, found, expected = RuntimeMetrics(model, optimizer, every=2), {}, {}
    x, y = torch.randn(32, 64, device="cuda"), torch.randint(4, (32,), device="cuda")
    for step in range(1, 7):
        if step == 2:  # the first step loads what is needed
            torch.cuda.set_sync_debug_mode("error")
        metrics.step_begins()
        logits = model(x)
        metrics.outputs(logits, y)
        nn.functional.cross_entropy(logits, y).backward()
        expected[step] = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        metrics.before_step()
        optimizer.step()
        metrics.after_step()
        optimizer.zero_grad()
        metrics.step_ended(step=step, samples=32)
        found |= dict(metrics.arrived())
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    found |= dict(metrics.arrived())
    assert sorted(found) == [1, 3, 5]
    for step, scalars in found.items():
        assert scalars["grad_norm"] == pytest.approx(float(expected[step]), rel=1e-5)
        assert scalars["device_memory_mib"] > 0
        assert 0 <= scalars["accuracy"] <= 1
