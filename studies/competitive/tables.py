"""The tables of the study as Markdown, put between markers of its page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from midstep.loops.bcl_config import CONDITIONS
from midstep.models.competitive.settings import DEAD_BELOW
from studies.competitive.measurements import Look
from studies.competitive.runs import Cell, health_facts

__all__ = ["deaths_table", "forces_table", "images_table", "results_table", "write_tables"]

METRICS = {
    "l1": ("L1", 4),
    "psnr": ("PSNR (dB)", 1),
    "weight_cosine": ("weight cosine", 3),
    "effective_rank": ("effective rank", 1),
    "dead": ("dead", 1),
    "winners": ("winners", 1),
    "unreachable": ("unreachable", 1),
    "gini": ("Gini", 2),
}


def results_table(cells: list[Cell]) -> str:
    """Mean and deviation over the seeds at the last examination of each run."""
    rows = []
    for condition in CONDITIONS:
        found = [
            health_facts(cell.run_dir)[-1]["metrics"]
            for cell in cells
            if cell.condition == condition
        ]
        rows.append([condition, *(_spread(found, name) for name in METRICS)])
    return _table(["condition", *(label for label, _ in METRICS.values())], rows)


def _spread(found: list[dict[str, float]], name: str) -> str:
    digits = METRICS[name][1]
    values = [float(metrics[name]) for metrics in found]
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def forces_table(looks: list[Look]) -> str:
    """What stands in the panels as training goes on."""
    rows = [
        [
            look.condition,
            f"{look.step:,}",
            f"{look.weight_cosine:.3f}",
            "–" if look.target_cosine is None else f"{look.target_cosine:.3f}",
            f"{look.grad_norm:.2e}",
            f"{look.som_norm:.2e}",
            f"{look.agree} / {look.fight} / {look.neutral}",
        ]
        for look in looks
    ]
    heads = ["condition", "step", "cosine of weights", "cosine of SOM targets"]
    return _table([*heads, "gradient's part", "pull's part", "agree / fight / neutral"], rows)


def deaths_table(cells: list[Cell]) -> str:
    """When features died for good, from the win rates in the facts."""
    rows = []
    for condition in CONDITIONS:
        of_condition = [cell for cell in cells if cell.condition == condition]
        steps = sorted(step for cell in of_condition for step in _deaths(cell.run_dir))
        when = "–" if not steps else f"{steps[0]:,} / {steps[len(steps) // 2]:,} / {steps[-1]:,}"
        rows.append([condition, f"{len(steps) / len(of_condition):.1f}", when])
    return _table(["condition", "dead at the end, per run", "died at: first / median / last"], rows)


def _deaths(run_dir: Path) -> list[int]:
    """For each feature that is dead at the end: the examination from which on it was."""
    history = health_facts(run_dir)
    died = []
    for feature in range(len(history[0]["features"]["win_rate"])):
        since = None
        for fact in history:
            alive = fact["features"]["win_rate"][feature] >= DEAD_BELOW
            since = None if alive else since or fact["step"]
        if since is not None:
            died.append(since)
    return died


def images_table(looks: list[Look]) -> str:
    """Which digits are among the images that pull most, against their share of the batches."""
    rows = []
    for condition in dict.fromkeys(look.condition for look in looks if look.pulling):
        mine = [look for look in looks if look.condition == condition]
        pulling = sum((look.pulling for look in mine), Counter[int]())
        labels = sum((look.labels for look in mine), Counter[int]())
        rows.append([condition, *(_lift(pulling, labels, digit) for digit in range(10))])
    return _table(["condition", *(str(digit) for digit in range(10))], rows)


def _lift(pulling: Counter[int], labels: Counter[int], digit: int) -> str:
    """How many times as often as by chance."""
    expected = labels[digit] / labels.total() * pulling.total()
    return "–" if expected == 0 else f"{pulling[digit] / expected:.1f}"


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`."""
    text = page.read_text()
    for name, table in tables.items():
        pattern = re.compile(f"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
        text, count = pattern.subn(f"<!-- {name} -->\n\n{table}\n\n<!-- /{name} -->", text)
        if count != 1:
            raise ValueError(f"{page} has {count} places for the table {name}, expected 1")
    page.write_text(text)


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
