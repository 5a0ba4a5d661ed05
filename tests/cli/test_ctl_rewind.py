"""Going back, hyperparameters, certificate and checkpoints over HTTP: page, client and terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import midstep
from midstep.cli.main import main
from midstep.client import Client
from midstep.client.http_transport import ClientError
from midstep.control import Command
from midstep.session import Session, SessionConfig

pytestmark = pytest.mark.usefixtures("effects_awaited")

TIMEOUT_S = 60.0


@pytest.fixture
def save_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def session(save_dir: Path) -> Iterator[Session]:
    """A served session that stands at step 6."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(0.2), torch.nn.Linear(3, 1))
    data = torch.utils.data.TensorDataset(torch.rand(8, 2), torch.rand(8, 1))
    made = Session(
        model,
        torch.optim.SGD(model.parameters(), lr=0.25),
        torch.nn.MSELoss(),
        torch.utils.data.DataLoader(data, batch_size=2, shuffle=True),
        config=SessionConfig(save_dir=save_dir, data_order_policy="epoch_reseed", seed=3),
    )
    with made, midstep.serve(made.run, port=0, save_dir=save_dir):
        made.controller.pause()
        loop = threading.Thread(target=made.fit, kwargs={"steps": 10**9}, name="loop")
        loop.start()
        made.controller.submit(Command(name="step", payload={"n": 6})).result(TIMEOUT_S)
        yield made
        made.controller.stop()
        loop.join(TIMEOUT_S)


@pytest.fixture
def ctl(
    session: Session, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def asked(*arguments: str) -> tuple[int, str, str]:
        code = main(["ctl", *arguments, "--save-dir", str(save_dir)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return asked


@pytest.fixture
def client(session: Session, save_dir: Path) -> Client:
    return Client.find(save_dir)


def test_the_client_goes_back_and_is_told_how_far_it_can(client):
    told = client.rewind()
    assert told["available"]
    assert (told["step"], told["first_step"], told["timeline"]) == (6, 0, 0)
    assert told["bytes"] <= told["budget_bytes"]
    state = client.back(2)
    assert (state["step"], state["timeline"], state["state"]) == (4, 1, "paused")
    assert client.back(step=1)["step"] == 1
    assert client.rewind()["timeline"] == 2
    last = client.commands()[-1]
    assert (last["command"], last["payload"], last["result"]["exact"]) == (
        "back",
        {"step": 1},
        True,
    )


def test_going_nowhere_or_too_far_is_a_conflict_with_its_reason(client):
    for asked, reason in (({"n": 7}, "only 6 steps"), ({"step": 9}, "not before")):
        with pytest.raises(ClientError, match=reason) as error:
            client.back(**asked)
        assert error.value.status == 409
    with pytest.raises(ClientError) as error:
        client.back(n=1, step=1)
    assert error.value.status == 422
    client.resume()
    with pytest.raises(ClientError, match="pause it first") as error:
        client.back(1)
    assert error.value.status == 409


def test_a_loop_without_snapshots_says_why_it_cannot_go_back(tmp_path):
    with (
        midstep.Run(name="bare", save_dir=tmp_path) as run,
        midstep.serve(run, port=0, save_dir=tmp_path),
    ):
        client = Client.find(tmp_path)
        assert not client.rewind()["available"]
        with pytest.raises(ClientError, match="keeps no snapshots") as error:
            client.back(1)
        assert error.value.status == 409


def test_hyperparameters_are_changed_and_the_old_ones_told(client, session):
    told = client.set_hparams(lr=0.5)
    assert told["result"]["old"]["lr"] == [0.25]
    assert session.trainer.parts.optimizer.param_groups[0]["lr"] == 0.5


def test_the_certificate_travels(client):
    told = client.certify(2)["result"]
    assert told["data"]["exact"]
    assert told["header"]["step"] == 6


def test_the_terminal_has_every_one_of_them(ctl):
    def said(*arguments: str) -> str:
        code, out, err = ctl(*arguments)
        assert (code, err) == (0, ""), (arguments, err)
        return out

    assert "back to step 0" in said("back", "--info")
    assert "step 5" in (text := said("back"))
    assert "exact over 5 repeated steps: ids 5" in text
    assert "step 2" in said("back", "--to", "2")
    assert "lr was 0.25" in said("hparams", "lr_mul=0.5")
    assert said("certify", "1").startswith("Exact")
    assert "saved checkpoints/2" in said("save")
    assert json.loads(said("step", "3", "--json"))["step"] == 5
    assert "at step 2 of timeline 4" in said("load", "2")
    assert "at step 0 of timeline 5" in said("reset")
    assert json.loads(said("command", "determinism_health", "steps=1"))["data"]["exact"]


def test_scalars_rate_and_loss_are_of_the_step_that_a_run_went_back_to(ctl, client):
    def newest(name: str) -> tuple[str, str]:
        code, out, _ = ctl("scalars", "loss", "lr")
        assert code == 0
        line = next(line.split() for line in out.splitlines() if line.startswith(f"{name} "))
        return line[1], line[2]

    recorded, loss = newest("loss"), client.state()["loss"]
    assert recorded[1] == "6"
    client.save_checkpoint()
    client.set_hparams(lr=0.5)
    client.step(3)
    assert newest("lr") == ("0.5", "9")
    client.back(3)
    assert (newest("loss"), client.state()["loss"]) == (recorded, loss)
    client.step(2)
    client.load_checkpoint(6)
    state = client.state()
    assert (newest("loss"), newest("lr")) == (recorded, ("0.25", "6"))
    # The file has the new rate, and does not say what the loss was.
    assert (state["step"], state["lr"], state["loss"]) == (6, 0.5, None)
    client.reset_session()
    state = client.state()
    assert (state["step"], state["loss"], state["lr"]) == (0, None, 0.25)
    assert ctl("scalars")[1].strip() == "nothing was logged yet"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("back", "3", "--to", "2"), "not two of them"),
        (("back", "3", "--info"), "not two of them"),
        (("back", "99"), "only 6 steps"),
        (("hparams", "lr"), "expected a number, got 'lr'; write lr=0.01"),
        (("load", "77"), "load_checkpoint failed"),
        (("command", "nothing_known"), "There is no command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_line(ctl, arguments: Any, words: str):
    code, _, err = ctl(*arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
