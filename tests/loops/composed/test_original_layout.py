"""Checkpoints of runs in the original layout: listed, read without running code, not deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from midstep.core.errors import FormatError
from midstep.facts.deletion import plan_deletion
from midstep.session.checkpoint.foreign_weights import list_original, load_original


class Code:
    """Anything that is not a tensor or a plain value."""


def test_files_of_the_original_layout_are_listed_and_loaded(tmp_path: Path) -> None:
    for name in ("model", "best_val", "last"):
        torch.save(
            {"model": {"weight": torch.full((2,), float(len(name)))}}, tmp_path / f"{name}.pt"
        )
    assert list(list_original(tmp_path)) == ["best_val", "model", "last"]
    assert load_original(tmp_path)["model"]["weight"].tolist() == [8.0, 8.0]
    assert sorted(plan_deletion(tmp_path).foreign) == ["best_val.pt", "last.pt", "model.pt"]


def test_a_pickled_object_in_one_is_refused(tmp_path: Path) -> None:
    torch.save({"model": Code()}, tmp_path / "last.pt")
    with pytest.raises(FormatError, match="holds more than tensors"):
        load_original(tmp_path, "last")
    with pytest.raises(FormatError, match=r"no checkpoint best_val\.pt; it has: last"):
        load_original(tmp_path)
