"""A run of the runner that is killed for real goes on where it stood, and leaves nothing half."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import torch

from midstep.facts import FactsReader
from midstep.influence.sampling import CharacterTokenizer, save_checkpoint
from midstep.influence.study.plan import read_plan
from midstep.influence.study.runner import FisherKernelRunner
from tests.influence.small_lm import ALPHABET, adamw, small_model

PLAN = """
{{"runner": {{"checkpoint": "{checkpoint}", "outputs": "{outputs}", "max_new_tokens": 5,
   "prompt_set": {{"name": "arithmetic", "largest": 9}}}},
 "plan": {{"update": {{"kind": "update", "params": {{"batch_size_prompts": 2,
     "completions_per_prompt": 2, "advantage_cfg": {{"scheme": "reinforce", "baseline": 0.5}}}}}},
   "requests": [
     {{"kind": "evaluation", "params": {{"batch_size_prompts": 2}}}},
     {{"kind": "custom_sequence", "params": {{"prompt": "1+1=", "response": "2"}}}}]}}}}
"""
# The n-th file of a folder is written, and the process is gone before the folder has its name.
CHILD = """
import os, signal, sys
from midstep.core.files import atomic_folders
from midstep.influence.study.plan import read_plan
from midstep.influence.study.runner import FisherKernelRunner
write, left = atomic_folders.write_new_file, [int(sys.argv[2])]
def then_die(path, chunks):
    write(path, chunks)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
atomic_folders.write_new_file = then_die
config, plan = read_plan(sys.argv[1])
FisherKernelRunner(config).run(plan)
"""


def test_killed_run_goes_on_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    model = small_model(torch.float64)
    place = save_checkpoint(tmp_path / "lm", model, CharacterTokenizer(ALPHABET), adamw(model))
    file, outputs = tmp_path / "plan.json", tmp_path / "outputs"
    file.write_text(PLAN.format(checkpoint=place, outputs=outputs))
    # Files 1-4 are the workspace with its batch, 5-8 the first request, 9 belongs to the second.
    child = subprocess.run([sys.executable, "-c", CHILD, str(file), "9"], check=False)
    assert child.returncode == -signal.SIGKILL
    (folder,) = outputs.iterdir()
    assert not (folder / "results.json").exists()
    assert list(folder.rglob("*.midstep-tmp"))
    config, plan = read_plan(file)
    results = FisherKernelRunner(config).run(plan)
    assert results.directory == folder
    assert not list(folder.rglob("*.midstep-tmp"))
    phases = [event.get("phase") for event in FactsReader(folder).events()]
    assert phases.count("update_kernel") == 1
    assert phases.count("reused") == 2
    assert phases.count("sample") == 4  # the second request's, killed while written, once more
    assert [one.name for one in results.requests] == ["evaluation", "custom_sequence"]
