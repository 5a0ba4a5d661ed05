"""Settings and scalars are read where a script gives them to its libraries, which get them too."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import midstep
from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.facts.read.media import MediaReader
from midstep.live.script.patches.function_patches import Patches
from midstep.live.script.patches.import_hook import ImportHook
from midstep.live.script.patches.logged_scalars import SCALAR_SOURCES, scalars_in, take_scalars
from midstep.live.script.patches.script_settings import SETTING_SOURCES, ScriptSettings


@pytest.fixture
def patches():
    patches = Patches()
    yield patches
    patches.undo()


@dataclass
class Options:
    lr: float = 0.1
    where: Path = Path("data")
    api_token: str = "secret"


def test_settings_of_argparse_are_those_of_the_last_parser(patches):
    settings = ScriptSettings()
    SETTING_SOURCES["argparse"](patches, argparse, settings.add)
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--wandb-key")
    parser.add_argument("--sizes", type=int, nargs="*")
    given = parser.parse_args(["--lr", "0.5", "--wandb-key", "x", "--sizes", "1", "2"])
    assert given.wandb_key == "x"
    assert settings.values == {"lr": 0.5, "wandb_key": "***", "sizes": [1, 2]}


def test_settings_of_tyro(patches):
    import tyro

    settings = ScriptSettings()
    SETTING_SOURCES["tyro"](patches, tyro, settings.add)
    assert tyro.cli(Options, args=["--lr", "0.3"]) == Options(lr=0.3)
    assert settings.values == {"lr": 0.3, "where": "data", "api_token": "***"}


def test_settings_in_variables_add_to_those_that_were_parsed():
    settings = ScriptSettings()
    settings.add({"lr": 0.5})
    settings.add_variables(
        [
            ("config", {"lr": 0.1, "width": 8, "model": torch.nn.Linear(1, 1)}),
            ("BATCH_SIZE", 16),
            ("args", SimpleNamespace(device=torch.device("cpu"))),
            ("losses", {"a": 1}),
            ("x", 3),
        ]
    )
    assert settings.values == {"lr": 0.5, "width": 8, "BATCH_SIZE": 16, "device": "cpu"}


def test_options_may_have_the_names_of_attributes_of_parts():
    settings = ScriptSettings()
    settings.add(argparse.Namespace(state_dict="start.pt", batch_sampler="length", lr=0.1))
    assert settings.values == {"state_dict": "start.pt", "batch_sampler": "length", "lr": 0.1}


def test_parts_of_a_training_are_no_settings_whatever_their_variable_is_called():
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(4))
    settings = ScriptSettings()
    settings.add_variables(
        [
            ("opt", optimizer),
            ("self.opts", SimpleNamespace(first=optimizer, width=3)),
            ("args", model),
            ("flags", loader),
            ("conf", iter(loader)),
            ("hps", torch.optim.lr_scheduler.StepLR(optimizer, 1)),
            ("config", {"optimizer": optimizer, "loader": loader, "parameters": 7}),
        ]
    )
    assert settings.values == {"width": 3, "parameters": 7}


def stand_in(name: str, class_name: str) -> ModuleType:
    """A module with a class that has the signatures of W&B's `Run`, or of a `Trainer`."""

    class Logger:
        def __init__(self):
            self.logged = []

        def log(self, data, step=None, commit=None):
            self.logged.append((data, step))

    module = ModuleType(name)
    setattr(module, class_name, Logger)
    return module


@pytest.mark.parametrize("name", ["wandb.sdk.wandb_run", "transformers.trainer"])
def test_dicts_that_are_logged_are_taken_and_passed_on(patches, name):
    source, class_name = SCALAR_SOURCES[name]
    module, taken = stand_in(name, class_name), []
    take_scalars(patches, module, lambda who, values: taken.append((who, values)))
    logger = getattr(module, class_name)()
    data = {"loss": torch.tensor(0.5), "eval": {"acc": 1.0}, "image": object(), "name": "x"}
    logger.log(data, step=3)
    assert logger.logged == [(data, 3)]
    assert taken == [(source, data)]
    assert scalars_in(data) == {"loss": torch.tensor(0.5), "eval/acc": 1.0}
    patches.undo()
    logger.log({"loss": 1.0})
    assert len(taken) == 1


def test_a_log_that_wandb_bound_before_is_taken_once(patches, monkeypatch):
    runs = stand_in("wandb.sdk.wandb_run", "Run")
    wandb, taken = ModuleType("wandb"), []
    monkeypatch.setitem(sys.modules, "wandb", wandb)

    def init():
        wandb.run = runs.Run()
        wandb.log = wandb.run.log  # as W&B does

    init()
    usual = wandb.log
    take_scalars(patches, runs, lambda _who, values: taken.append(values))
    wandb.log({"loss": 1}, step=3)
    wandb.run.log({"loss": 2})
    assert wandb.run.logged == [({"loss": 1}, 3), ({"loss": 2}, None)]
    init()  # a second run
    wandb.log({"loss": 3})
    assert taken == [{"loss": 1}, {"loss": 2}, {"loss": 3}]
    init()
    wandb.log = usual
    patches.undo()
    wandb.log({"loss": 4})
    assert len(taken) == 3


def test_a_table_of_one_cell_is_no_scalar_and_no_error():
    pandas = pytest.importorskip("pandas")
    values = {"table": pandas.DataFrame([[1.0]]), "loss": np.float32(0.5)}
    assert scalars_in(values) == {"loss": 0.5}


def test_a_module_is_changed_once_when_it_is_imported_and_keeps_its_loader(tmp_path, monkeypatch):
    (tmp_path / "fresh_tracker.py").write_text("value = 1\n")
    changed = []
    hook = ImportHook({"fresh_tracker": changed.append})
    hook.install()
    try:
        with pytest.raises(ModuleNotFoundError):
            import fresh_tracker
        monkeypatch.syspath_prepend(str(tmp_path))
        import fresh_tracker
    finally:
        hook.remove()
        sys.modules.pop("fresh_tracker", None)
    assert changed == [fresh_tracker]
    assert type(fresh_tracker.__loader__).__name__ == "SourceFileLoader"
    assert fresh_tracker.__spec__.loader is fresh_tracker.__loader__


def test_attach_records_what_the_script_sends_to_its_tracker(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=2)
    usual = SummaryWriter.add_scalar
    with (
        SummaryWriter(str(tmp_path / "board")) as writer,
        midstep.attach(
            model, optimizer, loader, mirror=["tensorboard"], save_dir=tmp_path, run_name="run"
        ),
    ):
        for index, x in enumerate(loader):
            model(x).sum().backward()
            optimizer.step()
            writer.add_scalar("train/index", index, index)
            writer.add_text("note", f"step {index}")
            writer.add_image("picture", torch.rand(3, 4, 5))
            writer.add_images("pictures", torch.rand(2, 4, 5, 3).numpy(), dataformats="NHWC")
            writer.add_histogram("weights", model.weight)
    assert SummaryWriter.add_scalar is usual
    groups = MediaReader(tmp_path / "run").groups()
    assert [(each.index.key, each.index.kind, len(each.items)) for each in groups] == [
        ("note", "text", 3),
        ("picture", "image", 3),
        ("pictures", "image", 3),
        ("weights", "histogram", 3),
    ]
    series = FactsReader(tmp_path / "run").series(["train/index"])["train/index"]
    assert list(zip(series.step.tolist(), series.low.tolist(), strict=True)) == [
        (1, 0.0),
        (2, 1.0),
        (3, 2.0),
    ]


def test_an_unknown_tracker_is_refused(tmp_path):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match=r"mirror='mlflow'.*'tensorboard'"):
        midstep.attach(model, optimizer, [torch.ones(2)], mirror=["mlflow"], save_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
