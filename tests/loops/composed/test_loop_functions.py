"""`train(cfg)` of a loop trains that loop, and its run is rebuilt without importing loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midstep.core.errors import ConfigError
from midstep.core.sample_spec import SampleSpec
from midstep.loops import compose
from midstep.loops.composed import ae, bcl_loop, diffusion_ae, gan_ae, mlp
from midstep.loops.config.recorded_config import read_recorded
from midstep.models.rebuild import rebuild_model

LOOPS = {"ae": ae, "gan_ae": gan_ae, "diffusion_ae": diffusion_ae, "mlp": mlp, "bcl": bcl_loop}
TINY: dict[str, Any] = {
    "phase1": {
        "encoder": {"hidden_dims": [8]},
        "decoder": {"hidden_dims": [8]},
        "trainer": {"epochs": 1},
    },
    "data": {"batch_size": 512, "n_events": 200},
    "logging": {"make_plots": False},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each loop returns for settings that do not name it."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return {name: loop.train({**TINY}) for name, loop in LOOPS.items()}


@pytest.mark.parametrize("name", LOOPS)
def test_the_function_of_a_loop_trains_that_loop(
    name: str, results: dict[str, dict[str, Any]]
) -> None:
    result = results[name]
    assert (result["loop"], result["status"]) == (name, "finished")
    assert result["best_val_loss"] > 0
    run_dir = Path(result["run_dir"])
    assert run_dir.parts[-3:-1] == ("outputs", "runs")
    config = read_recorded(run_dir).config
    assert config.data.name == ("digits" if name in ("mlp", "bcl") else "synthetic")
    assert config.phase1.decoder.name == ("diffusion" if name == "diffusion_ae" else "mlp")
    other = "mlp" if name == "ae" else "ae"
    with pytest.raises(ConfigError, match=f"trains loop={name}, .* loop.name={other}; leave"):
        LOOPS[name].train(compose([f"loop={other}"]))


REBUILD = """
import json, sys
sys.modules["midstep.loops"] = None  # importing it raises an error

from midstep.core.field_checks import read_dataclass
from midstep.data.sources.data_config import DataConfig
from midstep.data.sources.dataloaders import load_source, make_loaders
from midstep.facts.index.hydra_files import read_hydra_files
from midstep.models.rebuild import rebuild_model
from midstep.session.checkpoint.checkpoint_store import read_checkpoint
from pathlib import Path
import torch

outputs = {}
for run_dir in map(Path, sys.argv[1:]):
    settings = read_hydra_files(run_dir).config
    config = read_dataclass(DataConfig, settings["data"], path="data")
    data = load_source(config)
    model = rebuild_model(settings, data.spec).eval()
    before = [weight.clone() for weight in model.parameters()]
    model.load_state_dict(read_checkpoint(run_dir / "model").states["model"])
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters()))
    batch = next(iter(make_loaders(data, config)[1]))
    given = batch["image"] if settings["loop"]["name"] == "bcl" else batch
    torch.manual_seed(1)
    output = model(given)
    outputs[settings["loop"]["name"]] = type(output).__name__
    assert data.meta["splits"]["val"] >= len(next(iter(batch.values())))
print(json.dumps(outputs))
"""


def test_model_and_data_of_every_loop_are_rebuilt_without_loops(
    results: dict[str, dict[str, Any]],
) -> None:
    run_dirs = [result["run_dir"] for result in results.values()]
    rebuilt = subprocess.run(
        [sys.executable, "-c", REBUILD, *run_dirs], capture_output=True, text=True, check=False
    )
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout).keys() == LOOPS.keys()


def test_the_model_of_a_foreign_loop_is_refused() -> None:
    with pytest.raises(ConfigError, match="loop=mine cannot be rebuilt here"):
        rebuild_model({"loop": {"name": "mine"}}, SampleSpec(kind="vector", features=2))
