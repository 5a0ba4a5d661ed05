"""`midstep ctl batch`: rows of every kind that can be read in a terminal."""

from __future__ import annotations

from typing import Any

import torch

import midstep
from midstep.cli.ctl.batch_command import sample_lines
from midstep.control import CapturedBatch
from midstep.server.step_views.batch_json import describe_samples


def lines(batch: Any, view: Any = None, **rest: Any) -> list[str]:
    captured = CapturedBatch(step=0, batch=batch, loss=0.5, view=view, **rest)
    return sample_lines(describe_samples(captured.samples(0, 64)))


def test_texts_come_with_target_and_loss_the_highest_loss_first() -> None:
    view = midstep.view(lambda ids: " ".join(map(str, ids)), class_names=["bad", "good"])
    batch = {"input_ids": torch.tensor([[1, 2], [3, 4]]), "labels": torch.tensor([0, 1])}
    assert lines(batch, view, losses=[0.25, 1.5], sample_ids=[70, 71]) == [
        "sample  target  loss  share  text",
        "    71  good     1.5  85.7%  3 4",
        "    70  bad     0.25  14.3%  1 2",
    ]


def test_a_table_has_its_columns_and_names_the_sample_with_a_nan() -> None:
    batch = {"area": torch.tensor([35.5, float("nan")]), "city": ["Graz", "\x1b[31m"], "y": [1, 2]}
    assert lines(batch) == [
        "1 value is NaN or infinite, in sample 1",
        "sample  target  area  city",
        "     0       1  35.5  Graz",
        "     1       2   NaN  \\u001b[31m",
    ]


def test_masks_are_named_with_their_shares() -> None:
    masks = torch.zeros(1, 8, 8, dtype=torch.long)
    masks[0, :4] = 1
    view = midstep.view(class_names=["ground", "road"])
    assert lines((torch.rand(1, 3, 8, 8), masks), view) == ["mask: ground 50.0 %, road 50.0 %"]


def test_further_samples_are_counted() -> None:
    assert lines(["text"] * 40)[-1] == "24 further samples; --json has the first 40"
