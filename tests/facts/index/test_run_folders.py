"""Which folders are runs: of a sweep, named by a plan, behind links, or given."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.core.errors import ConfigError
from midstep.facts import (
    discover_runs,
    ensure_facts_dir,
)


def test_runs_of_a_folder_are_found_in_natural_order(tmp_path: Path) -> None:
    for name in ("run_x_job10", "run_x_job2", "deeper/run_y"):
        ensure_facts_dir(tmp_path / name)
    (tmp_path / "not_a_run").mkdir()
    (tmp_path / "composed/.hydra").mkdir(parents=True)
    found = [path.name for path in discover_runs(sweep_dir=tmp_path)]
    assert found == ["composed", "run_x_job2", "run_x_job10", "run_y"]


def test_runs_named_by_a_plan_are_found(tmp_path: Path) -> None:
    ensure_facts_dir(tmp_path / "runs/run_a")
    sweep = tmp_path / "exp"
    sweep.mkdir()
    plan = '{"run_dir": "../runs/run_a"}\n{"run_dir": "../runs/not_begun"}\n{"run_dir": "../ru'
    (sweep / "plan.jsonl").write_text(plan)
    assert [path.resolve().name for path in discover_runs(sweep_dir=sweep)] == ["run_a"]


def test_links_to_runs_of_a_sweep_are_followed_and_studies_are_left_out(tmp_path: Path) -> None:
    ensure_facts_dir(tmp_path / "elsewhere/run_a")
    ensure_facts_dir(tmp_path / "sweep/study")
    (tmp_path / "sweep/study/plan.json").touch()
    (tmp_path / "sweep/study/requests").mkdir()
    (tmp_path / "sweep/run_b").symlink_to(tmp_path / "elsewhere/run_a")
    assert discover_runs(sweep_dir=tmp_path / "sweep") == [tmp_path / "sweep/run_b"]


def test_given_run_directories_must_exist(tmp_path: Path) -> None:
    assert discover_runs(run_dirs=[tmp_path]) == [tmp_path]
    with pytest.raises(ConfigError, match="missing"):
        discover_runs(run_dirs=[tmp_path / "missing"])
    with pytest.raises(ConfigError, match="either"):
        discover_runs()
