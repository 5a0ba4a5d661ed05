"""On a GPU: the training thread waits for nothing, and readers get the losses of batches of one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from midstep.control.capture.captured_data import clone_or_reason
from midstep.control.capture.host_copy import TensorCopies
from midstep.explore.step_losses import StepLosses

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
B, T, C = 8, 16, 32


def of_user(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output, target).pow(1)


@pytest.mark.parametrize("held_bytes", [2**20, 0])
@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), of_user], ids=["torch", "user"])
def test_the_training_thread_does_not_wait(loss_fn, held_bytes, monkeypatch):
    monkeypatch.setattr("midstep.explore.step_losses.HELD_BYTES", held_bytes)
    tokens = torch.arange(B * T).reshape(B, T) % C
    output, target = torch.randn(B * T, C, device="cuda"), tokens.flatten().cuda()
    steps, columns = StepLosses(loss_fn, ""), None
    for step in range(3):
        whole = loss_fn(output, target)
        copies = TensorCopies()
        torch.cuda.set_sync_debug_mode("error" if step else "default")
        try:
            steps.loss_called(1, (output, target), {}, whole, batch=[tokens, tokens])
            columns = clone_or_reason(steps.take([[tokens, tokens]])(0, B, 1, B), copies)
            ready = copies.take()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert ready is not None
        ready.wait()
        rows = F.cross_entropy(output, target, reduction="none").reshape(B, T).mean(1)
        torch.testing.assert_close(columns["losses"], rows.cpu())
        assert columns["predictions"].device.type == "cpu"
