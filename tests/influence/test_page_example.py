"""The example in `explain-an-update.md` runs as it stands, and says the truth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "explain-an-update.md"


def test_the_example_predicts_what_the_step_does(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "fisher_kernel" in block]
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert "tensor" in capsys.readouterr().out
    predicted = names["kernel"].delta_logpi
    batches = {"update": names["update"], "evaluation": names["evaluation"]}
    actual = names["actual_change"](names["model"], **batches, **names["step"])
    assert names["kernel"].contributions().shape == (2, 4)
    torch.testing.assert_close(predicted, actual.to(predicted), rtol=0.1, atol=1e-6)
