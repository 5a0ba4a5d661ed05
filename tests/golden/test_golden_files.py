"""Golden files of an earlier midstep are read by the present one, with the same answers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.golden.answers_compare import changes
from tests.golden.command_list import EXAMPLES, recorded
from tests.golden.facts_answers import facts_of, index_of
from tests.golden.golden_copy import GOLDEN, copy_runs
from tests.golden.golden_data import (
    DATASETS,
    FORMS,
    INFLUENCE,
    cluster_answers,
    dataset_answers,
    sampled_again,
    stored_answers,
)
from tests.golden.random_order import order_answers
from tests.golden.server_answers import all_answers, golden_paths, serving_golden
from tests.golden.trainings import resumed_training

NEAR = 1e-9
"""Float64 sums differ between processors by less than this, relatively."""
NEAR_FLOAT32 = 1e-5
"""Cosines of float32 rows, computed anew."""
MOST_BYTES = 1_300_000
REWORDED = {
    "This link can only look. Ask for one that controls.": (
        "This link is view-only. Ask for a link that can control the run."
    ),
    "This link can only look at the run and its figures. Ask for one that controls.": (
        "This link is view-only: it shows the run and its figures. "
        "Ask for a link that can control the run."
    ),
    "The run has ended; its last batch was not kept.": (
        "The run has ended, and none of its batches was kept. A pause keeps one."
    ),
    'by python, hparams old {"lr":[0.03]} new {"lr":[0.015]} at step 2': (
        "by python, lr 0.03 → 0.015 at step 2"
    ),
    **{
        f"{tensor} has no SOM targets in step {step}: no competition pulls it. "
        "Choose source=weights or source=grad_delta.": (
            f"This run has no targets for the rows of {tensor} in step {step}. "
            "Choose source=weights or source=grad_delta."
        )
        for tensor, step in (("0.weight", 10), ("encoder.weight", 12))
    },
}
"""Sentences that were reworded: refusals, whose codes are compared as recorded, and the reason of a
timeline, which named fields of the facts. The last ones named one algorithm in every run."""


def golden(name: str) -> dict[str, Any]:
    return dict(json.loads((GOLDEN / name).read_text(encoding="utf-8")))


def reworded(recorded: Any) -> Any:
    """A recorded answer with the sentences of today, and with what is known of states today."""
    if isinstance(recorded, dict):
        known = known_today(recorded) if "boundary_age_s" in recorded else {}
        return {name: reworded(value) for name, value in {**recorded, **known}.items()}
    if isinstance(recorded, list):
        return [reworded(value) for value in recorded]
    return REWORDED.get(recorded, recorded) if isinstance(recorded, str) else recorded


def known_today(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of states began at 1, now at the time; a finished run had no total, now its steps."""
    is_unknown = state["state"] == "finished" and state["total_steps"] is None
    return {"number": None} | ({"total_steps": state["step"]} if is_unknown else {})


RECIPES = "GET /api/v1/recipes"
RENAMED_RECIPES = {"bcl": {"name": "demo", "title": "Demo: competing features"}}
"""D139: the recipe of the flat form is `demo`; `bcl` is the loop of the config tree."""


def with_renamed_recipes(recorded: Any) -> Any:
    """A recorded answer with the recipes under their names of today."""
    if RECIPES not in recorded:
        return recorded
    body = recorded[RECIPES]["body"]
    recipes = [each | RENAMED_RECIPES.get(each["name"], {}) for each in body["recipes"]]
    return {**recorded, RECIPES: {**recorded[RECIPES], "body": {**body, "recipes": recipes}}}


def without_new_recipes(answers: Any, recorded: Any) -> Any:
    """The answers with those recipes alone that there were; recipes may be added."""
    if RECIPES not in recorded:
        return answers
    names = {recipe["name"] for recipe in recorded[RECIPES]["body"]["recipes"]}
    body = answers[RECIPES]["body"]
    old = [recipe for recipe in body["recipes"] if recipe["name"] in names]
    return {**answers, RECIPES: {**answers[RECIPES], "body": {**body, "recipes": old}}}


@pytest.fixture(autouse=True)
def one_thread():
    """Sums do not depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- commands -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=list(EXAMPLES))
def commands(request, tmp_path_factory):
    """Golden and present commands of an attached run and of a session."""
    now = recorded(request.param, tmp_path_factory.mktemp("runs"))
    return golden("commands.json")[request.param], now


def test_no_command_is_lost(commands):
    old, new = commands
    assert sorted(old["commands"].keys() - new["commands"].keys()) == []


def test_no_payload_field_is_lost_or_has_another_type_or_default(commands):
    old, new = commands
    lost = []
    for name, fields in old["commands"].items():
        for field, about in fields.items():
            now = new["commands"][name].get(field)
            if now is None:
                lost.append(f"{name}.{field}: removed")
                continue
            if not set(about["types"]) <= set(now["types"]):
                lost.append(f"{name}.{field}: was {about['types']}, is {now['types']}")
            if about.get("default", "required") != now.get("default", "required"):
                lost.append(f"{name}.{field}: default was {about.get('default')}")
    assert lost == []


def test_no_payload_field_is_newly_required(commands):
    old, new = commands
    required = [
        f"{name}.{field}"
        for name, fields in new["commands"].items()
        for field, about in fields.items()
        if "default" not in about and field not in old["commands"].get(name, {field: None})
    ]
    assert required == []


def test_commands_with_golden_payloads_give_the_golden_fields(commands, request):
    old, new = commands
    if request.node.callspec.params["commands"] == "session":
        # Snapshots of those very steps are held, so nothing was repeated, and nothing compared.
        for back in (each for each in old["examples"] if each["command"] == "back"):
            back["result"]["exact"] = "NoneType"
    assert changes(old["examples"], new["examples"]) == []


# -- facts ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A copy of the golden runs, which nobody writes."""
    return copy_runs(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", list(golden("facts.json")))
def test_facts_of_a_golden_run_are_read_as_before(runs, name):
    now = json.loads(json.dumps(facts_of(runs / name)))
    assert changes(golden("facts.json")[name], now) == []


def test_golden_facts_have_two_attempts_and_rewinds(runs):
    facts = golden("facts.json")["rewound"]
    assert facts["last_attempt"] == 2
    assert [each["timeline"] for each in facts["rewinds"]] == [1, 2]


def test_rows_histories_and_curves_of_golden_runs_are_as_before(runs):
    now = json.loads(json.dumps(index_of(runs)))
    assert changes(golden("index.json"), now) == []
    assert list(now["folders"]) == list(golden("index.json")["folders"])


# -- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["attached", "session"])
def test_a_training_goes_on_from_a_golden_checkpoint(kind, tmp_path):
    old = golden("resumed.json")[kind]
    now = json.loads(json.dumps(resumed_training(kind, copy_runs(tmp_path))))
    assert now["restored"] == old["restored"], "the state put back differs in its bits"
    order = "ids" if kind == "session" else "samples"
    assert [each[order] for each in now["steps"]] == [each[order] for each in old["steps"]]
    assert changes(old, now, tolerance=NEAR) == []


# -- datasets and influence -----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_golden_dataset_gives_the_same_batches_in_every_form(form, tmp_path):
    folder = shutil.copytree(DATASETS / form, tmp_path / form)
    now = json.loads(json.dumps(dataset_answers(folder)))
    assert changes(golden("datasets.json")[form], now) == []


def test_the_three_forms_of_the_golden_dataset_are_one_dataset():
    memmap, *others = (golden("datasets.json")[form] for form in FORMS)
    assert all(each == memmap for each in others)


def test_a_golden_cluster_dataset_gives_the_same_samples(tmp_path):
    folder = shutil.copytree(DATASETS / "clusters", tmp_path / "clusters")
    now = json.loads(json.dumps(cluster_answers(folder)))
    assert changes(golden("datasets.json")["clusters"], now, tolerance=NEAR_FLOAT32) == []


def test_orders_splits_and_random_draws_are_as_before(tmp_path):
    now = json.loads(json.dumps(order_answers(tmp_path)))
    assert changes(golden("random_order.json"), now) == []


def test_a_golden_batch_workspace_and_result_are_read_as_before(tmp_path):
    folder = shutil.copytree(INFLUENCE, tmp_path / "influence")
    now = json.loads(json.dumps(stored_answers(folder)))
    assert changes(golden("influence.json")["stored"], now, tolerance=NEAR) == []


def test_the_golden_plan_samples_the_same_sequences_again(tmp_path):
    folder = shutil.copytree(INFLUENCE, tmp_path / "influence")
    now = json.loads(json.dumps(sampled_again(folder)))
    old = {name: golden("influence.json")["stored"][name] for name in now}
    assert changes(old, now, tolerance=NEAR) == []


# -- the server -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers(tmp_path_factory, user_folders) -> dict[str, Any]:
    """What the present server says about a copy of the golden runs."""
    with serving_golden(tmp_path_factory.mktemp("outputs")) as server:
        return all_answers(server)


@pytest.mark.parametrize("part", list(golden("answers.json")))
def test_the_server_answers_as_before_about_stored_runs(answers, part):
    old = with_renamed_recipes(reworded(golden("answers.json")[part]))
    assert changes(old, without_new_recipes(answers[part], old), tolerance=NEAR_FLOAT32) == []


def test_every_read_route_of_a_stored_run_was_recorded():
    asked = golden("answers.json")["runs/competitive"]
    statuses = {each["status"] for each in asked.values()}
    assert len([name for name in asked if name.startswith("GET")]) > len(golden_paths())
    assert statuses >= {200, 403, 404, 409, 422}


# -- the files themselves -------------------------------------------------------------------------


def data_files() -> list[Path]:
    skipped = {".py", ".pyc"}
    return [p for p in GOLDEN.rglob("*") if p.is_file() and p.suffix not in skipped]


def test_golden_files_are_small():
    assert sum(path.stat().st_size for path in data_files()) < MOST_BYTES


def test_golden_files_name_no_machine_and_no_path():
    named = re.compile(rb"/(?:home|root|tmp|Users|work|var|usr|opt|mnt|proc)/|site-packages")
    found = [path.name for path in data_files() if named.search(path.read_bytes())]
    assert found == []


def test_links_of_golden_runs_stay_inside_their_run(runs):
    links = [path for path in runs.rglob("*") if path.is_symlink()]
    assert len(links) == 5
    assert all(not path.readlink().is_absolute() and path.exists() for path in links)


# -- the comparison -------------------------------------------------------------------------------


def test_the_comparison_sees_what_is_missing_or_changed_and_allows_additions():
    old = {"a": 1, "b": [1.0, None], "c": {"d": "x"}}
    assert changes(old, {**old, "e": 5, "c": {"d": "x", "f": 1}}) == []
    assert changes(old, {"b": [1.0, None], "c": {"d": "x"}}) == [".a: missing"]
    assert changes(old, {**old, "a": True}) == [".a: was 1, is True"]
    assert changes(old, {**old, "b": [1.0]}) == [".b: had 2 entries, has 1"]
    assert changes(old, {**old, "c": {"d": "y"}}) == [".c.d: was 'x', is 'y'"]
    near = {**old, "b": [1.0 + 1e-10, None]}
    assert changes(old, near, tolerance=NEAR) == []
    assert changes(old, near) == [".b[0]: was 1.0, is 1.0000000001"]
