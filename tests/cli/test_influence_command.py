"""`midstep influence`: a plan from file to report, shown and checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from midstep.cli.main import main
from midstep.influence.sampling import CharacterTokenizer, save_checkpoint
from tests.influence.small_lm import ALPHABET, adamw, small_model

PLAN = """
runner:
  checkpoint: {checkpoint}
  prompt_set: {{name: arithmetic, largest: 9}}
  max_new_tokens: 5
  outputs: {outputs}
plan:
  name: first
  update:
    kind: update
    params:
      batch_size_prompts: 3
      completions_per_prompt: 2
      advantage_cfg: {{scheme: reinforce, baseline: 0.5}}
  requests:
    - {{kind: custom_sequence, name: probe, params: {{prompt: "1+1=", response: "2"}}}}
    - {{kind: evaluation, params: {{batch_size_prompts: 3}}}}
  validate_rates: [1.0e-5]
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    model = small_model(torch.float64)
    place = save_checkpoint(folder / "lm", model, CharacterTokenizer(ALPHABET), adamw(model))
    file = folder / "plan.yaml"
    file.write_text(PLAN.format(checkpoint=place, outputs=folder / "outputs"))
    return file


@pytest.fixture
def folder(plan: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["influence", "run", str(plan), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["requests"]["probe"]["C-000-00"]) == {"total", "kernel", "momentum", "decay"}
    return Path(told["directory"])


def test_run_says_what_it_found_and_where(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["influence", "run", str(plan)]) == 0
    said = capsys.readouterr().out
    assert "1+1=|2" in said
    assert "predicted against a true step" in said
    assert "report.html" in said


def test_show_reads_results_and_refuses_unknown_requests(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["influence", "show", str(folder), "--request", "probe", "--top", "2"]) == 0
    said = capsys.readouterr().out
    assert said.count("by U-") == 2
    assert "E-000-00" not in said
    assert main(["influence", "show", str(folder), "--request", "prob"]) == 2
    assert "there are probe, evaluation" in capsys.readouterr().err
    assert main(["influence", "show", str(folder.parent)]) == 2
    assert "give the folder of a finished run" in capsys.readouterr().err


def test_show_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from midstep.cli.main import main; "
        f"sys.exit(main(['influence', 'show', {str(folder)!r}]))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_validate_takes_true_steps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["influence", "validate", str(folder), "--request", "evaluation"]
    assert main([*asked, "--rates", "1e-4,1e-5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["slope"] == pytest.approx(1.0, abs=0.1)
    assert main([*asked, "--rates", "1e-4,1e-5"]) == 0
    assert "slope of the error" in capsys.readouterr().out
    assert main([*asked, "--rates", "fast"]) == 2
    assert "--rates takes numbers" in capsys.readouterr().err


def test_plan_that_cannot_be_is_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"runner": {"checkpoint": "none"}, "plan": {"updat": {}}}')
    assert main(["influence", "run", str(file)]) == 2
    assert capsys.readouterr().err == (
        "midstep: a plan needs 'update': how the update batch is made or loaded\n"
    )


@pytest.mark.parametrize("command", [[], ["run"], ["show"], ["validate"]])
def test_help_teaches_with_an_example(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["influence", *command, "--help"]) == 0
    assert "midstep influence" in capsys.readouterr().out
