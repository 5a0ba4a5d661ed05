"""`Run`: one writer of a run directory, from its header to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

from midstep.control import Command, DebugController
from midstep.core.errors import ConfigError, RunHeldError, StopTraining, StorageError
from midstep.core.ids import new_run_id
from midstep.core.moments import Moment
from midstep.facts import FactsReader, HeartbeatWatch, end_state, read_lease
from midstep.session import Run
from tests.checkers.neutral import wait_until


def events(run: Run, moment: str | None = None) -> list[dict]:
    found = FactsReader(run.dir).events()
    return [event for event in found if moment in (None, event["moment"])]


# -- directory ------------------------------------------------------------------------------------


def test_the_directory_is_named_by_time_and_name_and_its_parents_are_made(tmp_path):
    with Run(name="my run", save_dir=tmp_path / "not" / "yet") as run:
        assert run.dir.parent == tmp_path / "not" / "yet"
    assert run.dir.name.startswith("run_2")
    assert run.dir.name.endswith("Z_my-run")


def test_runs_that_start_in_the_same_second_get_directories_of_their_own(tmp_path):
    runs = [Run(name="twin", save_dir=tmp_path) for _ in range(4)]
    for run in runs:
        run.close()
    assert len({run.dir for run in runs}) == len({run.run_id for run in runs}) == 4


def test_a_run_name_is_used_as_it_stands_and_continued_if_asked_to(tmp_path):
    with Run(name="a", save_dir=tmp_path, run_name="fixed") as first:
        assert first.dir == tmp_path / "fixed"
        first.log(loss=1.0)
        first.controller.wait_if_paused()
    again = {"name": "a", "save_dir": tmp_path, "run_name": "fixed", "existing": "continue"}
    with Run(**again) as second:
        assert (second.run_id, second.attempt) == (first.run_id, 2)
    with Run(**again) as third:
        assert third.attempt == 3
    sequence = [event["seq"] for event in events(third)]
    assert sequence == sorted(set(sequence))


@pytest.mark.parametrize("how", ["run_name", "run_dir"])
def test_a_directory_that_holds_a_run_is_refused_and_left_alone(tmp_path, how):
    with Run(name="a", save_dir=tmp_path, run_name="fixed") as run:
        for _ in range(3):
            run.controller.wait_if_paused()
    before = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file()}
    given = {"run_name": "fixed"} if how == "run_name" else {"run_dir": run.dir}
    with pytest.raises(ConfigError, match="already holds a run of 3 steps; choose another"):
        Run(name="a", save_dir=tmp_path, **given)
    assert {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file()} == before


def test_an_id_and_directory_allocated_before_are_used(tmp_path):
    run_id = new_run_id()
    with Run(name="a", run_dir=tmp_path / "given", run_id=run_id) as run:
        assert (run.dir, run.run_id) == (tmp_path / "given", run_id)


def test_another_id_for_a_directory_in_use_is_refused(tmp_path):
    with Run(name="a", save_dir=tmp_path, run_name="fixed"):
        pass
    with pytest.raises(ConfigError, match="already holds the run"):
        Run(name="a", save_dir=tmp_path, run_name="fixed", run_id=new_run_id())
    with pytest.raises(ConfigError, match="is not a run id"):
        Run(name="a", save_dir=tmp_path, run_id="../etc")


@pytest.mark.parametrize("run_name", ["../up", "a/b", "with space", ".hidden"])
def test_a_run_name_that_is_no_directory_name_is_refused(tmp_path, run_name):
    with pytest.raises(ConfigError, match="directory name"):
        Run(name="a", save_dir=tmp_path, run_name=run_name)


def test_a_folder_that_cannot_be_made_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="save_dir"):
        Run(name="a", save_dir=tmp_path / "file")


@pytest.mark.parametrize("settings", [{}, {"run_name": "fixed"}], ids=str)
def test_a_folder_that_cannot_be_written_is_refused_with_the_remedy(tmp_path, settings):
    folder = tmp_path / "closed"
    (folder / "fixed").mkdir(parents=True)
    for each in (folder / "fixed", folder):
        each.chmod(0o555)
    root = os.geteuid() == 0
    if root:  # the owner of everything can write everywhere; somebody else cannot
        tmp_path.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="Choose another folder with save_dir"):
            Run(name="a", save_dir=folder, **settings)
    finally:
        if root:
            os.seteuid(0)


def test_a_directory_that_this_process_writes_is_refused(tmp_path):
    with (
        Run(name="a", save_dir=tmp_path, run_name="fixed") as run,
        pytest.raises(RunHeldError, match="already being written by this process"),
    ):
        Run(name="a", save_dir=tmp_path, run_name="fixed")
    assert end_state(run.dir).state == "finished"


HOLD = """
import sys
from midstep.facts import Lease
lease = Lease.acquire(sys.argv[1], "0" * 12)
print(1, flush=True)
input()
"""


def test_a_directory_that_another_process_writes_is_refused_and_told_who(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "fixed")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(RunHeldError, match=f"process {other.pid} "):
            Run(name="a", save_dir=tmp_path, run_name="fixed")
        other.communicate(b"\n", timeout=30)


def test_what_fails_half_way_gives_the_directory_back(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("midstep.session.run.process_info", broken)
    control = DebugController()
    with pytest.raises(ZeroDivisionError):
        Run(name="a", save_dir=tmp_path, run_name="fixed", controller=control)
    monkeypatch.undo()
    with Run(name="a", save_dir=tmp_path, run_name="fixed", controller=control) as run:
        run.log(loss=1.0)
        control.wait_if_paused()
    assert len(FactsReader(run.dir).series(["loss"])["loss"].step) == 1


# -- header ---------------------------------------------------------------------------------------


def test_the_header_says_how_it_was_started(tmp_path):
    config = {"lr": 0.1, "layers": (1, 2), "limit": float("inf")}
    model = nn.Linear(2, 1)
    with Run(name="a", save_dir=tmp_path, config=config, seed=7, model=model, command=["x"]) as run:
        pass
    header = FactsReader(run.dir).header()
    assert header["run_id"] == run.run_id
    assert header["config"] == {"lr": 0.1, "layers": [1, 2], "limit": "Infinity"}
    assert (header["name"], header["seed"], header["device"]) == ("a", 7, "cpu")
    assert header["argv"] == ["x"]
    assert header["versions"]["torch"] == torch.__version__
    assert header.keys() >= {"host", "pid", "git", "platform", "cwd"}
    assert header["data_fingerprint"] is None  # nobody has said what the data are


# -- facts ----------------------------------------------------------------------------------------


def test_scalars_of_each_step_stand_in_the_facts(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        for step in range(5):
            run.log(loss=torch.tensor(step / 2, requires_grad=True), lr=0.1)
            assert run.controller.wait_if_paused()
        run.log_finished(val_loss=0.25)
        assert run.step == 5
    series = FactsReader(run.dir).series()
    assert list(series["loss"].step) == [1, 2, 3, 4, 5]
    assert list(series["loss"].low) == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert list(series["val_loss"].step) == [5]


def test_what_was_logged_after_the_last_boundary_is_kept(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        run.log(loss=1.0)
    assert list(FactsReader(run.dir).series()["loss"].low) == [1.0]


def test_a_logged_tensor_holds_no_graph_and_no_later_change(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        loss = torch.ones(1, requires_grad=True).sum()
        run.log(loss=loss)
        loss.data.mul_(100)
        run.controller.wait_if_paused()
    assert list(FactsReader(run.dir).series()["loss"].low) == [1.0]


def test_what_is_no_scalar_is_noted_and_the_run_goes_on(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        run.log(loss=0.5, lr="high", stack=torch.ones(3, 5, 5, 5, 5), nothing=None)
        assert run.controller.wait_if_paused()
    assert list(FactsReader(run.dir).series()) == ["loss"]
    refused = {event["name"] for event in events(run) if event.get("kind") == "value_refused"}
    assert refused == {"lr", "stack", "nothing"}


def test_interventions_are_facts_with_who_and_when(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        control = run.controller
        control.pause()
        control.step(2)
        control.resume()
        assert control.wait_if_paused()
    found = [event for event in events(run, "on_intervention") if event["kind"] == "command"]
    # `resume` cuts the granted steps short, hence the step is answered when it takes effect.
    assert {event["command"] for event in found} == {"pause", "step", "resume"}
    assert {event["who"] for event in found} == {"python"}


def test_an_event_is_written_when_the_call_returns(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        seq = run.event(Moment.VALIDATION_END, epoch=1, val_loss=0.5)
        assert events(run)[-1]["seq"] == seq


def test_parameters_and_buffers_can_be_watched_and_are_read_by_name(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with Run(name="a", save_dir=tmp_path, model=model) as run:
        assert run.controller.watches.sources[:2] == ["0.weight", "0.bias"]
        assert "1.running_mean" in run.controller.watches.sources
        assert "1.num_batches_tracked" not in run.controller.watches.sources
        run.controller.add_watch(0, source="0.weight")
        run.controller.wait_if_paused()
        model[0].weight = nn.Parameter(-model[0].weight.detach())
        run.controller.wait_if_paused()
        points = run.controller.get_trajectories()[0]
    assert [round(point["weight_cos_to_init"]) for point in points] == [1, -1]


def test_a_command_id_repeated_after_a_restart_is_answered_and_not_repeated(tmp_path):
    again, refused = Command(name="pause"), Command(name="step")
    with Run(run_name="a", name="a", save_dir=tmp_path) as run:
        assert run.controller.submit(refused).exception() is not None
        asked = run.controller.submit(again)
        run.controller.submit(Command(name="resume"))
        assert run.controller.wait_if_paused()
        assert asked.result(0) == {"step": 1}
    with Run(run_name="a", name="a", save_dir=tmp_path, existing="continue") as run:
        assert run.controller.submit(again).done()
        assert "pause it first" in str(run.controller.submit(refused).exception())
        assert not run.controller.is_paused
        assert run.controller.queue.find(again.id).status == "done"
        assert [record.seq for record in run.controller.queue.latest()] == [1, 2, 3]
        run.controller.submit(Command(name="resume"))
        assert run.controller.queue.latest()[-1].seq == 4


def test_trajectories_stay_with_their_run_and_the_next_one_starts_clear(tmp_path):
    controller, model = DebugController(), nn.Linear(2, 3)
    with Run(name="a", save_dir=tmp_path, model=model, controller=controller) as first:
        controller.add_watch(0, source="weight")
        controller.add_watch(2)
        controller.wait_if_paused()
    kept = json.loads((first.dir / "artifacts" / "trajectories.json").read_text())
    assert (kept["source"], kept["watched"]) == ("weight", [0, 2])
    assert [point["step"] for point in kept["trajectories"]["0"]] == [1]
    assert [point["step"] for point in kept["pairwise"]["0,2"]] == [1]
    with Run(name="b", save_dir=tmp_path, controller=controller) as second:
        assert controller.get_trajectories() == {}
        controller.watches.replace([])
    assert not (second.dir / "artifacts").exists()


def test_a_disk_that_refuses_parks_the_loop_and_lets_it_go_on_by_itself(tmp_path, monkeypatch):
    with Run(name="a", save_dir=tmp_path) as run:
        space = threading.Event()
        monkeypatch.setattr(run.facts, "retry", space.is_set)
        run._park_until_written("no space left on device")
        stands = []

        def look():
            state = wait_until(run.controller, lambda state: state["parked"])
            stands.append(state["reason"])
            space.set()

        looker = threading.Thread(target=look)
        looker.start()
        assert run.controller.wait_if_paused()
        looker.join()
        monkeypatch.undo()
    assert stands == ["no space left on device"]


# -- ends -----------------------------------------------------------------------------------------


def test_the_end_states_are_told_by_the_facts(tmp_path):
    with Run(name="finished", save_dir=tmp_path) as finished:
        assert end_state(finished.dir).state == "running"
    with Run(name="stopped", save_dir=tmp_path) as stopped:
        stopped.controller.stop()
        assert not stopped.controller.wait_if_paused()
    with pytest.raises(ZeroDivisionError), Run(name="failed", save_dir=tmp_path) as failed:
        raise ZeroDivisionError("by nothing")
    assert end_state(finished.dir).state == "finished"
    assert end_state(stopped.dir).state == "stopped"
    assert end_state(failed.dir).state == "failed"
    assert end_state(failed.dir).reason == "ZeroDivisionError: by nothing"
    assert failed.controller.get_state()["state"] == "failed"
    assert "raise ZeroDivisionError" in events(failed)[-1]["traceback"]


@pytest.mark.parametrize("error", [StopTraining("stopped"), SystemExit(0), SystemExit()], ids=repr)
def test_a_stop_or_a_clean_exit_is_no_failure(tmp_path, error):
    with pytest.raises(type(error)), Run(name="a", save_dir=tmp_path) as run:
        raise error
    assert end_state(run.dir).state == "stopped"


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (KeyboardInterrupt(), "stopped", "KeyboardInterrupt"),
        (SystemExit(2), "failed", "SystemExit: 2"),
    ],
    ids=repr,
)
def test_an_interrupt_is_on_record_and_never_parks(tmp_path, error, state, reason):
    with pytest.raises(type(error)), Run(name="a", save_dir=tmp_path, on_error="park") as run:
        raise error
    found = end_state(run.dir)
    assert (found.state, found.reason) == (state, reason)
    assert run.controller.get_state()["state"] == state


def lease_now(run: Run) -> dict:
    run.lease.reachable_at(server_url=None)  # writes at once, as a heartbeat would
    return read_lease(run.dir)


def test_a_loop_that_hangs_is_told_from_one_that_stands(tmp_path):
    hangs, goes_on = threading.Event(), threading.Event()

    def train(control):
        control.wait_if_paused()
        hangs.set()
        goes_on.wait(30)
        control.wait_if_paused()

    with Run(name="a", save_dir=tmp_path) as run:
        assert lease_now(run)["moving"] is False  # nothing is due before the first step
        training = threading.Thread(target=train, args=(run.controller,))
        training.start()
        assert hangs.wait(30)
        lease_now(run)
        hung = lease_now(run)
        assert (hung["moving"], hung["boundary_count"], hung["step"]) == (True, 1, 1)
        ten_later = HeartbeatWatch(clock=lambda: hung["boundary_mono"] + 10)
        assert ten_later.boundary_age_s(run.dir, hung) == 10
        run.controller.status.describe(phase="validation")
        assert lease_now(run)["moving"] is False
        run.controller.status.describe(phase=None)
        run.controller.pause()
        assert lease_now(run)["moving"] is True
        goes_on.set()
        wait_until(run.controller, lambda state: state["parked"])
        assert lease_now(run)["moving"] is False
        run.controller.resume()
        training.join(30)
        assert lease_now(run)["boundary_count"] == 2


def test_the_first_end_stays(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        run.finish(note="early")
        run.finish("stopped")
        run.fail(ZeroDivisionError())
    ends = events(run, "on_train_end") + events(run, "on_exception")
    assert [(end["status"], end["note"]) for end in ends] == [("finished", "early")]


def test_closing_twice_is_fine_and_leaves_the_controller_usable(tmp_path):
    run = Run(name="a", save_dir=tmp_path)
    run.close()
    run.close()
    run.controller.boundary.log({"loss": 1.0})
    assert run.controller.wait_if_paused()
    assert not (run.dir / "lease.json").exists()


class Terminal:
    closed = False

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("viewer", "terminal", "reachable", "asked", "parks"),
    [
        (False, False, False, None, False),
        (True, False, False, None, True),
        (False, True, True, None, True),
        (False, True, False, None, False),  # no one could release it
        (False, False, True, None, False),
        (True, True, True, "raise", False),
        (False, False, False, "park", True),
    ],
)
def test_an_error_parks_when_somebody_can_look(
    tmp_path, monkeypatch, viewer, terminal, reachable, asked, parks
):
    run = Run(name="a", save_dir=tmp_path, on_error=asked)
    run.page_url = "http://127.0.0.1:8765/" if reachable else None
    if viewer:
        run.controller.captures.viewer()
    if terminal:
        monkeypatch.setattr(sys, "stdin", Terminal())
    assert run._should_park() is parks
    monkeypatch.undo()
    run.close()
