"""Plan files: read, checked, and refused with the place that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.influence.study.plan import BatchRequest, FisherKernelPlan, read_plan

YAML = """
runner:
  checkpoint: outputs/lm/step-40
  prompt_set: {name: arithmetic, largest: 9}
plan:
  name: study
  update: {kind: update, params: {batch_size_prompts: 4, completions_per_prompt: 4}}
  requests:
    - {kind: evaluation, params: {batch_size_prompts: 8}, responses: reference}
    - {kind: custom_sequence, name: probe, params: {prompt: "1+1=", response: "2"}}
  validate_rates: [1.0e-4, 1.0e-5]
"""
UPDATE = {"kind": "update", "params": {"batch_size_prompts": 2, "completions_per_prompt": 2}}


def test_yaml_and_json_give_the_same_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(YAML)
    config, plan = read_plan(tmp_path / "plan.yaml")
    assert config.prompt_set == {"name": "arithmetic", "largest": 9}
    assert [one.name for one in plan.requests] == ["evaluation", "probe"]
    both = {"runner": config.to_json(), "plan": plan.to_json()}
    (tmp_path / "plan.json").write_text(strict_json.dumps(both))
    assert read_plan(tmp_path / "plan.json") == (config, plan)


def test_plan_comes_back_from_its_description() -> None:
    plan = FisherKernelPlan.from_mapping({"update": UPDATE, "parameters": ["*.up.*"], "top_k": 3})
    assert FisherKernelPlan.from_mapping(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"topk": 3}, "plan has no setting 'topk'; the settings are algorithm"),
        ({"preconditioner": "adam"}, "preconditioner must be one of"),
        ({"requests": [{"kind": "nothing"}]}, "kind must be one of update"),
        ({"requests": [{"kind": "evaluation"}]}, "needs batch_size_prompts and may have"),
        ({"requests": [UPDATE, UPDATE]}, "two requests are called 'update'"),
        ({"requests": ["evaluation"]}, r"requests\[0\] must be a mapping"),
        ({"requests": [{"kind": "evaluation", "n": 1}]}, r"requests\[0\] has no setting 'n'"),
        ({"validate_rates": [0.0]}, "validate_rates must be above 0"),
        ({"validate_rates": [float("inf")]}, "validate_rates must be above 0"),
        ({"top_k": -1}, "top_k must be a whole number of at least 0"),
        *[
            ({name: value}, f"{name} must be a number above 0, got")
            for name in ("lr", "max_grad_norm")
            for value in (-1, 0, float("nan"), float("inf"), "1", True)
        ],
    ],
)
def test_wrong_settings_are_refused_with_their_place(changes: dict, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        FisherKernelPlan.from_mapping({"update": UPDATE, **changes})


def test_update_is_needed_and_takes_no_responses() -> None:
    with pytest.raises(ConfigError, match="a plan needs 'update'"):
        FisherKernelPlan.from_mapping({})
    with pytest.raises(ConfigError, match="takes no responses"):
        BatchRequest(**UPDATE, responses="reference")


def test_object_tags_and_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("runner: !!python/object/apply:os.getcwd []\nplan: {}\n")
    with pytest.raises(FormatError, match="not plain YAML"):
        read_plan(file)
    file.write_text("plan: {}\n")
    with pytest.raises(FormatError, match="two keys 'runner'"):
        read_plan(file)
    file.write_text("runner: {checkpoint: a, chekpoint: b}\nplan: {}\n")
    with pytest.raises(ConfigError, match="runner has no setting 'chekpoint'"):
        read_plan(file)
    with pytest.raises(StorageError, match="cannot read the plan"):
        read_plan(tmp_path / "none.yaml")
