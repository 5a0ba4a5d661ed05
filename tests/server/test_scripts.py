"""Scripts that `midstep serve --allow-script` may start: by id alone, as `midstep run` does."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.client import Client
from midstep.core.errors import ClientError, ConfigError
from midstep.facts import FactsReader, end_state, read_lease
from midstep.facts.format.console_parts import list_parts
from midstep.facts.liveness.run_lock import lock_holder
from midstep.facts.read.console_text import read_console
from midstep.facts.write.console_writer import FIRST_BYTES, LAST_BYTES, PART_BYTES
from midstep.server.recipes.allowed_scripts import parse_script, parse_scripts
from midstep.server.root_server import RootServer, RootServerConfig
from tests.served import Served

TRAIN = """
import argparse, os, sys
import helper  # beside the script, which is not in the working directory
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--api-key")
steps = parser.parse_args().steps
print(f"path {sys.path[0]} argv {sys.argv} cwd {os.getcwd()} session {os.getsid(0) == os.getpid()}")
print(f"stdin {sys.stdin.read()!r} safe {sys.flags.safe_path}")
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(steps):
    loss = model(torch.ones(4, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
OWN = """
import midstep, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2)
print("a line of the script")
with midstep.attach(model, optimizer, loader, save_dir="outputs/runs", name="own") as run:
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""
TAG = "http://127.0.0.1:8765/#token=secret-of-a-tag"
LOUD = """
import os, sys
import midstep, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2)
print("before the run")
with midstep.attach(model, optimizer, loader, save_dir="outputs/runs", name="loud", serve=True,
                    port=0, tags=[TAG]) as run:
    print("the page is", run.url)
    os.write(1, f"{run.url} past Python\\n".encode())
    os.write(2, f"{run.url} past Python\\n".encode())
    for number in range(60_000):
        print(f"{number:06d}", "x" * 100)
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""
COMMANDS = ("code/train.py --steps 3 --api-key sk-secret", "own.py", "idle.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "code").mkdir()
    (folder / "code/train.py").write_text(TRAIN)
    (folder / "code/helper.py").write_text("")
    (folder / "own.py").write_text(OWN)
    (folder / "loud.py").write_text(LOUD.replace("TAG", repr(f"a {TAG}")))
    (folder / "idle.py").write_text("print('nothing to train')\n")
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        config = RootServerConfig(outputs=folder / "outputs", port=0, scripts=COMMANDS)
        with RootServer(config) as root:
            os.chdir(before)
            port = int(root.base.rsplit(":", 1)[1])
            yield Served(
                None, root.app.state.runs, root.tokens.now, root.app, root.base, port, root
            )
    finally:
        os.chdir(before)
    for run_dir in (folder / "outputs/runs").iterdir():
        assert lock_holder(run_dir) is None


def listed(served: Served, token: str = "control") -> dict:
    return served.ask("GET", "/api/v1/scripts", token=token).json()


def wait_for_end(run_dir: Path) -> str:
    deadline = time.monotonic() + 120
    while lock_holder(run_dir) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return end_state(run_dir).state


def test_the_list_says_neither_folders_nor_secrets(served: Served, folder: Path) -> None:
    answer = listed(served)
    titles = [each["title"] for each in answer["scripts"]]
    assert titles == ["train.py --steps 3 --api-key '***'", "own.py", "idle.py"]
    text = json.dumps(answer)
    assert str(folder) not in text
    assert "code" not in text
    assert "sk-secret" not in text


def test_an_id_follows_from_what_the_list_shows_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    here = parse_script("train.py --steps 3 --api-key other", tmp_path)
    there = parse_script(COMMANDS[0], folder)
    assert (here.id, here.title) == (there.id, there.title)
    both = parse_scripts(["train.py", "train.py"], tmp_path)
    assert len(both) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gone.py --lr 1", "no script gone.py"),
        ("", "names no script"),
        ("a 'b", "cannot read the command line"),
    ],
)
def test_a_server_with_a_wrong_script_does_not_start(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RootServer(RootServerConfig(outputs=tmp_path, scripts=(text,)))


def test_a_script_starts_by_its_id_as_midstep_run_starts_it(served: Served, folder: Path) -> None:
    path = f"/api/v1/scripts/{listed(served)['scripts'][0]['id']}/runs"
    answer = served.ask("POST", path, {"id": "a", "name": "from the page"})
    assert answer.status == 201, answer.json()
    row = answer.json()
    assert served.ask("POST", path, {"id": "a"}).json()["id"] == row["id"], "a repeated id"
    run_dir = folder / "outputs" / row["directory"]
    assert wait_for_end(run_dir) == "finished"
    header = FactsReader(run_dir).header()
    assert header["run_id"] == row["id"]
    assert (header["name"], header["cwd"]) == ("from the page", str(folder))
    masked = ["midstep", "run", "code/train.py", "--steps", "3", "--api-key", "***"]
    assert header["argv"] == masked
    console = (run_dir / "console.log").read_text()
    assert f"path {folder / 'code'} argv ['code/train.py', '--steps'" in console
    assert f"cwd {folder} session True" in console
    assert "stdin '' safe False" in console
    lease = read_lease(run_dir)
    assert lease is None or lease["pid"] != os.getpid()


def test_a_script_that_trains_nothing_is_refused_with_what_it_printed(served: Served) -> None:
    client = Client(f"{served.url}/#token={served.tokens.control}")
    with pytest.raises(ClientError, match="nothing to train") as refused:
        client.recipes.start_script(client.recipes.scripts()[2]["id"])
    assert refused.value.status == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "a/b"},
        {"id": "c", "target": "other.py"},
        {"id": "c", "arguments": ["--steps", "9"]},
        {"id": "c", "argv": "x"},
        {"id": "c", "cwd": "/"},
        {"id": "c", "paused": "yes"},
        {"id": "c", "name": ["a"]},
        {"id": "c", "settings": {}},
    ],
)
def test_no_path_no_argument_and_no_code_comes_with_a_request(served: Served, body: dict) -> None:
    script = listed(served)["scripts"][0]
    answer = served.ask("POST", f"/api/v1/scripts/{script['id']}/runs", body)
    assert answer.status == 422


@pytest.mark.parametrize("script_id", ["0" * 20, "train.py", "code%2ftrain.py", "..", "x" * 64])
def test_an_unknown_id_is_a_404(served: Served, script_id: str) -> None:
    assert served.ask("POST", f"/api/v1/scripts/{script_id}/runs", {"id": "d"}).status == 404


def test_a_view_only_link_sees_no_command_line_and_starts_nothing(served: Served) -> None:
    answer = listed(served, "viewer")
    assert answer["scripts"] == []
    assert "view-only" in answer["why_not"]
    script = listed(served)["scripts"][0]
    path = f"/api/v1/scripts/{script['id']}/runs"
    assert served.ask("POST", path, {"id": "e"}, token="viewer").status == 403


def test_a_read_only_server_takes_no_scripts(folder: Path) -> None:
    with pytest.raises(ConfigError, match="leave one out"):
        RootServerConfig(outputs=folder, read_only=True, scripts=COMMANDS)


def test_the_terminal_starts_a_script_which_may_have_a_run_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["runs", "start", "--script", "own.py", "--json"]) == 0
    run_dir = Path(json.loads(capsys.readouterr().out)["directory"])
    assert wait_for_end(run_dir) == "finished"
    assert FactsReader(run_dir).header()["name"] == "own"
    assert "a line of the script" in (run_dir / "console.log").read_text()
    assert [each for each in run_dir.parent.iterdir() if not (each / "facts").is_dir()] == []


def test_the_output_of_a_launched_script_is_bounded_and_has_no_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = set((folder / "outputs/runs").glob("*"))
    assert main(["runs", "start", "--script", "loud.py", "--json"]) == 0
    run_dir = Path(json.loads(capsys.readouterr().out)["directory"])
    assert wait_for_end(run_dir) == "finished"
    assert set((folder / "outputs/runs").glob("*")) - before == {run_dir}  # no other directory
    parts = list_parts(run_dir)
    first = (run_dir / "console.log").read_text()
    assert first.startswith("before the run\nthe page is http://127.0.0.1:")
    assert "#token=***" in first
    assert read_console(run_dir, tail=200).text.endswith(f"059999 {'x' * 100}\n")
    assert sum(part.size for part in parts) <= FIRST_BYTES + LAST_BYTES + PART_BYTES
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    assert [path for path in files if re.search(rb"#token=[^*]", path.read_bytes())] == []
    assert [path for path in files if b"past Python" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--script", "idle.py"], "nothing to train"),
        (["--script", "gone.py"], "no script gone.py"),
        (["demo", "--script", "idle.py"], "either a recipe"),
        ([], "either a recipe"),
        (["--script", "idle.py", "--set", "a=1"], "--set is for recipes"),
    ],
)
def test_the_terminal_says_why_a_script_does_not_start(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    assert main(["runs", "start", *words]) != 0
    assert said in " ".join(capsys.readouterr().err.split())
