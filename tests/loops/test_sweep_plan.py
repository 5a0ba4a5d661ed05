"""Plans of sweeps: axes, addresses, what makes a cell outdated, effects of axes."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from midstep.core.errors import ConfigError, FormatError
from midstep.facts import FactsWriter, discover_runs
from midstep.loops import compose
from midstep.loops.composed.auto_batch_size import with_batch_size
from midstep.loops.sweep.axes import SweepAxis, parse_axes
from midstep.loops.sweep.cell_address import code_modules, digest_modules
from midstep.loops.sweep.cell_states import Cell, list_cells
from midstep.loops.sweep.composed_cells import named_modules
from midstep.loops.sweep.effects import axis_effects, bootstrap_interval, held_comparisons
from midstep.loops.sweep.plan import PLAN, read_plan, write_plan
from midstep.loops.sweep.planning import continue_plan, with_found_batch_size
from tests.tiny_sweep import AXES, plan_of, sweep_in


@pytest.mark.parametrize(
    ("override", "values"),
    [
        ("a=1,2", ("1", "2")),
        ("a=range(0,3)", ("0", "1", "2")),
        ("a=choice(x,y)", ("x", "y")),
        ("a=[1,2],[3]", ("[1,2]", "[3]")),
    ],
)
def test_lists_ranges_and_choices_are_axes(override: str, values: tuple[str, ...]) -> None:
    request = parse_axes(["fixed=[1,2]", override])
    assert request.axes == (SweepAxis(key="a", values=values),)
    assert request.fixed == ("fixed=[1,2]",)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["a=1"], "several values"),
        (["a=glob(*)"], "write them out"),
        (["a=interval(0,1)"], "write them out"),
        (["a=1,1"], "names a value twice"),
        (["a=1,2", "a=3,4"], "is given twice"),
        (["a=[1"], "cannot be read"),
        (["a=range(0,100)", "b=range(0,101)"], "10,100 cells"),
    ],
)
def test_an_axis_that_makes_no_sense_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_axes(overrides)


def test_a_plan_has_a_cell_for_each_combination_and_survives_its_file(tmp_path: Path) -> None:
    plan = plan_of()
    folder = sweep_in(tmp_path, plan)
    assert [job.choices for job in plan.jobs] == [
        {"level": level, "seed": seed} for level in "12" for seed in "01"
    ]
    assert plan.jobs[3].run_dir == "run_20260102T030405Z_tiny_job003"
    assert read_plan(folder) == plan
    assert len({job.address for job in plan.jobs}) == 4
    (folder / plan.jobs[1].run_dir / "facts").mkdir(parents=True)
    assert [path.name for path in discover_runs(sweep_dir=folder)] == [plan.jobs[1].run_dir]


def test_equal_cells_are_refused() -> None:
    with pytest.raises(ConfigError, match="cells 0 and 1 have the same config"):
        plan_of(cells={index: {"seed": 0, "level": 0} for index in range(4)})


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"version":1', '"version":2', "newer midstep"),
        ('"run_dir":"run_', '"run_dir":"../run_', "has a wrong run directory or run id"),
        ('"axes":', '"exas":', "damaged"),
        ('"job":0', '"job":"../0"', "damaged"),
        ("{", "", "damaged"),
    ],
)
def test_a_damaged_or_hostile_plan_is_refused(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    folder = sweep_in(tmp_path)
    text = (folder / PLAN).read_text()
    (folder / PLAN).write_text(text.replace(before, after, 1))
    with pytest.raises(FormatError, match=words):
        read_plan(folder)


def test_more_values_add_cells_and_keep_the_others() -> None:
    plan = plan_of()
    longer = continue_plan(plan, plan_of(["level=1,3", "seed=0,1,2"]))
    assert longer.jobs[:4] == plan.jobs
    assert [tuple(job.choices.values()) for job in longer.jobs[4:]] == [
        ("1", "2"), ("3", "0"), ("3", "1"), ("3", "2")
    ]  # fmt: skip
    assert [axis.values for axis in longer.axes] == [("1", "2", "3"), ("0", "1", "2")]
    assert len({job.run_dir for job in longer.jobs}) == 8


def test_a_cell_whose_config_is_another_one_now_gets_a_new_run_beside_the_old() -> None:
    plan = plan_of()
    changed = continue_plan(plan, plan_of(cells={2: {"steps": 40}}))
    before, after = plan.jobs[2], changed.jobs[2]
    assert (after.job, after.choices, after.config["steps"]) == (2, before.choices, 40)
    assert after.replaced_runs == (before.run_dir,)
    assert after.run_dir != before.run_dir
    assert [changed.jobs[number] for number in (0, 1, 3)] == [
        plan.jobs[number] for number in (0, 1, 3)
    ]
    again = continue_plan(changed, plan_of(cells={2: {"steps": 40}}))
    assert again.jobs == changed.jobs


def test_the_address_covers_config_data_and_the_named_code_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "named_part.py").write_text("A = 1\n")
    (tmp_path / "other_part.py").write_text("B = 1\n")
    data = tmp_path / "data.h5"
    data.write_bytes(b"one")
    plan = plan_of(modules=["named_part"], data_files=[data])
    folder = sweep_in(tmp_path, plan)

    def changes() -> set[str | None]:
        return {cell.change for cell in list_cells(folder, read_plan(folder))}

    (tmp_path / "other_part.py").write_text("B = 2\n")
    assert changes() == {None}
    (tmp_path / "named_part.py").write_text("A = 2  # longer\n")
    assert changes() == {"code"}
    (job, *_) = plan.jobs
    later = plan_of(modules=["named_part"], data_files=[data]).jobs[0]
    assert (job.config_hash, job.code_hash) != (later.config_hash, later.code_hash)
    assert job.address != later.address
    write_plan(folder, plan.with_job(replace(job, accepted_code=(later.code_hash,))))
    assert list_cells(folder, read_plan(folder))[0].change == "accepted code"
    data.write_bytes(b"other")
    assert changes() == {"data"}
    sys.modules.pop("named_part", None)


@pytest.mark.timeout(20)
def test_neither_a_pipe_nor_a_module_that_cannot_be_read_stops_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "edited_part.py").write_text("A = 1\n")
    data = tmp_path / "data.h5"
    data.write_bytes(b"one")
    plan = plan_of(modules=["edited_part"], data_files=[data])
    folder = sweep_in(tmp_path, plan)
    (tmp_path / "edited_part.py").write_text("A = (1  # not finished\n")
    assert {cell.change for cell in list_cells(folder, read_plan(folder))} == {"code"}
    with pytest.raises(ConfigError, match="edited_part cannot be read"):
        plan_of(modules=["edited_part"])
    jobs = tuple(replace(job, modules=("", "__main__")) for job in plan.jobs)
    assert {cell.change for cell in list_cells(folder, replace(plan, jobs=jobs))} == {"code"}
    data.unlink()
    os.mkfifo(data)
    assert {cell.change for cell in list_cells(folder, read_plan(folder))} == {"data"}


def test_a_lease_whose_step_is_no_number_gives_no_share(tmp_path: Path) -> None:
    folder = sweep_in(tmp_path)
    job = read_plan(folder).jobs[0]
    with FactsWriter(folder / job.run_dir) as facts:
        facts.event("on_start", total_steps=20)
    (folder / job.run_dir / "lease.json").write_text('{"step": "many"}')
    cell = list_cells(folder, read_plan(folder))[0]
    assert (cell.state, cell.step, cell.share) == ("killed", None, None)


def test_an_edit_of_one_part_makes_no_cell_of_another_outdated() -> None:
    composed = compose(["loop=ae", "phase1/latent_space=vq", "data=synthetic"])
    named = named_modules(composed.config)
    assert named == (
        "midstep.data.sources.synthetic",
        "midstep.loops.composed.ae",
        "midstep.models.autoencoder.autoencoder",
        "midstep.models.autoencoder.latent.vector_quantizer",
        "midstep.models.autoencoder.parts.mlp_parts",
    )
    modules = code_modules(named)
    # The loss is exported lazily by its package, and trains the model all the same.
    assert {
        "midstep.loops.composed.loop_training",
        "midstep.data.sources.source_data",
        "midstep.models.autoencoder.reconstruction",
        "midstep.models.autoencoder.layers",
    } <= modules
    assert {name.split(".")[1] for name in modules} == {"loops", "data", "models"}
    assert not modules & {
        "midstep.loops.composed.bcl_loop",
        "midstep.data.sources.images",
        "midstep.models.autoencoder.parts.gnn_parts",
        "midstep.models.autoencoder.builders",
    }


def test_a_found_batch_size_is_part_of_the_address(tmp_path: Path) -> None:
    composed = compose(["loop=mlp", "data=digits", "data.batch_size=auto"])
    plan = plan_of(cells={0: {"data": {"batch_size": "auto"}}})
    job, other = plan.jobs[:2]
    assert with_found_batch_size(job, tmp_path) == job  # its run has not begun
    run_dir = tmp_path / job.run_dir / ".hydra"
    run_dir.mkdir(parents=True)
    for name, text in with_batch_size(composed, 96).hydra_texts.items():
        (run_dir / name).write_text(text)
    begun = with_found_batch_size(job, tmp_path)
    assert begun.batch_size == 96
    assert begun.address != job.address
    assert begun.config_hash == job.config_hash  # so that the same command finds the cell again
    assert with_found_batch_size(other, tmp_path) is other


# -- effects --------------------------------------------------------------------------------------

AXES_OF_EFFECTS = (
    SweepAxis(key="latent", values=("none", "vq")),
    SweepAxis(key="beta", values=("0", "1")),
    SweepAxis(key="trainer.seed", values=tuple("01234")),
)


def cells_of(draw: random.Random, share: float = 1.0) -> list[Cell]:
    combinations = parse_axes(
        [f"{axis.key}={','.join(axis.values)}" for axis in AXES_OF_EFFECTS]
    ).cells()
    return [
        Cell(
            job=job,
            choices=choices,
            state="finished" if draw.random() < share else "killed",
            values={"best_val_loss": (choices["latent"] == "vq") + 0.1 * draw.random()},
        )
        for job, choices in enumerate(combinations)
    ]


def slow_differences(cells: list[Cell], key: str, level: str, against: str) -> list[float]:
    """Every two finished cells that differ in one axis, found by comparing all with all."""
    return [
        one.values["best_val_loss"] - other.values["best_val_loss"]
        for one in cells
        for other in cells
        if {one.state, other.state} == {"finished"}
        and {**one.choices, key: None} == {**other.choices, key: None}
        and (one.choices[key], other.choices[key]) == (level, against)
    ]


def test_effects_are_those_of_all_pairs_that_differ_in_one_axis() -> None:
    cells = cells_of(random.Random(3), share=0.7)
    effects = axis_effects(AXES_OF_EFFECTS, cells, "best_val_loss")
    assert [(each.axis, each.level) for each in effects][:2] == [("latent", "vq"), ("beta", "1")]
    for each in effects:
        slow = slow_differences(cells, each.axis, each.level, each.against)
        assert sorted(pair.difference for pair in each.pairs) == pytest.approx(sorted(slow))


def test_five_seeds_rank_and_four_do_not() -> None:
    cells = cells_of(random.Random(1))
    ranked = held_comparisons(AXES_OF_EFFECTS, cells, "best_val_loss")
    by_latent = [each for each in ranked if each.axis == "latent"]
    assert [(each.seeds, each.is_enough, each.better) for each in by_latent] == [
        (5, True, "none")
    ] * 2
    fewer = [cell for cell in cells if cell.choices["trainer.seed"] != "4"]
    few = held_comparisons(AXES_OF_EFFECTS, fewer, "best_val_loss")
    assert {(each.is_enough, each.better) for each in few} == {(False, None)}
    of_accuracy = [
        replace(cell, values={"val_acc": cell.values["best_val_loss"]}) for cell in cells
    ]
    assert held_comparisons(AXES_OF_EFFECTS, of_accuracy, "val_acc")[0].better == "vq"


def test_the_interval_is_repeatable_and_covers_the_mean() -> None:
    draw = random.Random(5)
    misses = 0
    for _ in range(60):
        values = [draw.gauss(1.0, 1.0) for _ in range(20)]
        low, high = bootstrap_interval(values) or (0.0, 0.0)
        assert (low, high) == bootstrap_interval(values)
        misses += not low <= 1.0 <= high
    assert misses <= 9  # 5 % of 60 are 3; twenty values make the interval a little narrow
    assert bootstrap_interval([1.0]) is None


def test_axes_of_a_plan_are_read_back(tmp_path: Path) -> None:
    plan = read_plan(sweep_in(tmp_path))
    assert [f"{axis.key}={','.join(axis.values)}" for axis in plan.axes] == list(AXES)
    assert [axis.is_seed for axis in plan.axes] == [False, True]


def test_a_module_that_a_plan_names_is_read_and_never_imported(tmp_path, monkeypatch):
    package = tmp_path / "planned_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "loop.py").write_text("VALUE = 1")
    monkeypatch.syspath_prepend(tmp_path)
    before = digest_modules(["planned_package.loop"])
    assert "planned_package" not in sys.modules
    (package / "loop.py").write_text("VALUE = 22")
    assert digest_modules(["planned_package.loop"]) != before


@pytest.mark.parametrize("name", ["midstep./etc/hosts", "midstep.loops.no_such", "sys"])
def test_a_module_without_source_or_with_a_path_in_its_name_is_refused(name):
    with pytest.raises(ConfigError, match="there is no source of the module"):
        digest_modules([name])
