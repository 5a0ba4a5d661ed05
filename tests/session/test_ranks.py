"""Two ranks of a process group: they resume at one step, and no rank is moved alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from midstep.control import Command
from midstep.core.errors import ConfigError, ControlError
from midstep.facts import FactsReader
from midstep.facts.format.paths import list_steps_files
from midstep.live import attach
from midstep.session import Session, SessionConfig
from midstep.session.checkpoint.checkpoint_store import CheckpointStore, read_checkpoint
from midstep.session.checkpoint.fingerprint import hash_value
from midstep.session.ranks import why_no_state
from tests.checkers.kill import Acknowledge, ForkedChild, warm_up

WORLD, STEPS = 2, 6
TIMEOUT_S = 60.0
"""Of the group; the tests that wait for it choose a shorter one."""


class Rank:
    """The training of one rank; `in_session` decides the driver."""

    def __init__(self, folder: Path, rank: int, *, in_session: bool = True, **config: Any) -> None:
        self.folder, self.rank, self.in_session = folder, rank, in_session
        self.config = {
            "save_dir": folder,
            "run_name": f"rank{rank}",
            "resume": "auto",
            "checkpoint_every_steps": 1,
        } | config
        self.attaches, self.timeout_s = True, TIMEOUT_S

    def __call__(self, life: str, steps: int = STEPS, prepare: Any = lambda _run: None) -> str:
        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo",
            init_method=f"file://{self.folder / f'{life}.store'}",
            rank=self.rank,
            world_size=WORLD,
            timeout=timedelta(seconds=self.timeout_s),
        )
        torch.manual_seed(1)
        data = TensorDataset(torch.randn(24, 3), torch.randn(24, 2))
        sampler = DistributedSampler(data, WORLD, self.rank)
        self.loader = DataLoader(data, batch_size=2, sampler=sampler)
        self.model = DistributedDataParallel(torch.nn.Linear(3, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        (self._session if self.in_session else self._attached)(steps, prepare)
        dist.destroy_process_group()
        return hash_value(dict(self.model.state_dict()))

    def _session(self, steps: int, prepare: Callable[[Any], object]) -> None:
        parts = self.model, self.optimizer, torch.nn.MSELoss(), self.loader
        with Session(*parts, config=SessionConfig(**self.config)) as session:
            # Each checkpoint is on disk before the next step: a busy disk would cost some of them.
            session.on_boundary.append(session.checkpoint_writer.wait)
            prepare(session)
            session.fit(steps=steps)

    def _attached(self, steps: int, prepare: Callable[[Any], object]) -> None:
        if not self.attaches:
            self._plain(steps)
            return
        with attach(self.model, self.optimizer, self.loader, **self.config) as run:
            prepare(run)
            for _ in run.epochs(9):
                for x, y in self.loader:
                    run._loop._engine.writer.wait()
                    self._step(x, y)
                    if run.step + 1 == steps:
                        run.controller.stop()

    def _plain(self, steps: int) -> None:
        for _ in range(steps):
            for x, y in self.loader:
                self._step(x, y)

    def _step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        torch.nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def run_ranks(ranks: list[Any], life: str, steps: int = STEPS, **options: Any) -> list[Any]:
    """What each rank reports: its digest, or what it raised."""

    def work(rank: Rank) -> Callable[[Acknowledge], None]:
        return lambda acknowledge: acknowledge(rank(life, steps, **options))

    children = [ForkedChild(work(rank)) for rank in ranks]
    return [child.wait(timeout_s=60.0)[-1] for child in children]


def pair(folder: Path, **options: Any) -> list[Rank]:
    return [Rank(folder, number, **options) for number in range(WORLD)]


def store(folder: Path, rank: int) -> CheckpointStore:
    return CheckpointStore(folder / f"rank{rank}")


def resumed_steps(folder: Path) -> list[list[int]]:
    return [
        [event["step"] for event in FactsReader(folder / f"rank{rank}").events()
         if event.get("kind") == "resume"]
        for rank in range(WORLD)
    ]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


DRIVERS = pytest.mark.parametrize("in_session", [True, False], ids=["session", "attach"])


@DRIVERS
def test_a_resume_uses_the_newest_step_that_all_ranks_have(tmp_path, in_session):
    (tmp_path / "whole").mkdir()
    whole = run_ranks(pair(tmp_path / "whole", in_session=in_session), "one")
    assert whole[0] == whole[1], whole
    run_ranks(pair(tmp_path, in_session=in_session), "one", steps=4)
    shutil.rmtree(tmp_path / "rank1" / "checkpoints" / "4")
    shutil.rmtree(tmp_path / "rank1" / "checkpoints" / "3")
    assert store(tmp_path, 0).steps[0] == 4
    digests = run_ranks(pair(tmp_path, in_session=in_session), "two")
    assert digests == whole
    assert resumed_steps(tmp_path) == [[2], [2]]
    origin = read_checkpoint(tmp_path / "rank0" / "last").origin
    runs = [FactsReader(tmp_path / f"rank{rank}").header()["run_id"] for rank in range(WORLD)]
    assert origin["world"] == {"rank": 0, "size": WORLD, "runs": runs}


def test_ranks_stay_together_where_only_one_has_a_record_after_the_checkpoint(tmp_path):
    (tmp_path / "whole").mkdir()
    whole = run_ranks(pair(tmp_path / "whole"), "one")
    run_ranks(pair(tmp_path), "one", steps=4)
    for rank in range(WORLD):
        for step in (3, 4):
            shutil.rmtree(tmp_path / f"rank{rank}" / "checkpoints" / str(step))
    for _, path in list_steps_files(tmp_path / "rank1", 0):
        path.unlink()
    ranks = pair(tmp_path)
    for rank in ranks:
        rank.timeout_s = 5.0
    assert run_ranks(ranks, "two") == whole
    assert resumed_steps(tmp_path) == [[2], [2]]
    (fact,) = [e for e in FactsReader(tmp_path / "rank1").events() if "verdict" in e]
    assert (fact["exact"], "rank 1 of 2" in fact["text"]) == (None, True)


def test_a_damaged_checkpoint_of_one_rank_is_left_out_by_both(tmp_path):
    run_ranks(pair(tmp_path), "one", steps=4)
    (tmp_path / "rank1" / "checkpoints" / "4" / "state.json").write_bytes(b"")
    run_ranks(pair(tmp_path), "two")
    assert resumed_steps(tmp_path) == [[3], [3]]


def test_ranks_without_a_common_step_are_refused_with_what_each_has(tmp_path):
    run_ranks(pair(tmp_path), "one", steps=2)
    shutil.rmtree(tmp_path / "rank1" / "checkpoints")
    for report in run_ranks(pair(tmp_path), "two"):
        assert "no valid checkpoint of the same step" in report["raised"]
        assert "rank 1 has none" in report["raised"]


def test_weights_that_differ_between_the_ranks_are_refused(tmp_path):
    run_ranks(pair(tmp_path), "one", steps=2)
    ours = store(tmp_path, 1)
    snapshot = ours.load(2)
    snapshot.states["model"]["module.weight"].add_(1.0)
    ours.save(snapshot)
    for report in run_ranks(pair(tmp_path), "two"):
        assert "the weights of step 2 differ between rank 0 and rank 1" in report["raised"]


def test_resume_is_refused_where_only_some_ranks_are_attached(tmp_path):
    ranks = pair(tmp_path, in_session=False)
    ranks[0].timeout_s, ranks[1].attaches = 4.0, False
    reports = run_ranks(ranks, "one", steps=2)
    assert "rank 1 of 2 did not offer a checkpoint" in reports[0]["raised"]


def test_without_a_resume_attaching_on_one_rank_is_fine_and_its_checkpoints_say_so(tmp_path):
    ranks = pair(tmp_path, in_session=False, resume="never")
    ranks[1].attaches = False
    reports = run_ranks(ranks, "one", steps=12)
    assert isinstance(reports[0], str), reports
    assert read_checkpoint(tmp_path / "rank0" / "last").origin["world"]["runs"] is None


def test_a_rank_that_begins_anew_beside_one_that_resumes_is_refused(tmp_path):
    run_ranks(pair(tmp_path), "one", steps=2)
    ranks = [Rank(tmp_path, 0), Rank(tmp_path, 1, resume="never", run_name="new")]
    reports = run_ranks(ranks, "two")
    assert 'rank 1 has resume="never"' in reports[0]["raised"]


def test_one_process_does_not_resume_a_checkpoint_of_two_ranks(tmp_path):
    run_ranks(pair(tmp_path), "one", steps=2)
    model = torch.nn.ModuleDict({"module": torch.nn.Linear(3, 2)})
    data = TensorDataset(torch.randn(24, 3), torch.randn(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    config = SessionConfig(save_dir=tmp_path, run_name="rank0", resume="auto")
    loader = DataLoader(data, batch_size=2)
    with (
        pytest.raises(ConfigError, match="world_size was 2, is 1"),
        Session(model, optimizer, torch.nn.MSELoss(), loader, config=config) as session,
    ):
        session.fit(steps=3)


# -- no collective, and no state that needs one ---------------------------------------------------

COLLECTIVES = [name for name in dist.distributed_c10d.__all__ if hasattr(dist, name) and
    name.startswith(("all_", "broadcast", "gather", "reduce", "scatter", "barrier", "monitored",
    "send", "recv", "isend", "irecv"))
]  # fmt: skip


@DRIVERS
def test_no_collective_is_called_by_us_in_checkpoints_pauses_and_resumes(tmp_path, in_session):
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a collective was called")

    def work(rank: Rank, life: str, steps: int) -> Callable[[Acknowledge], None]:
        def prepare(run: Any) -> None:  # the group and its DDP model are there
            for name in COLLECTIVES:
                setattr(dist, name, refuse)
            control, pauses = run.controller, []

            def resume_once() -> None:
                if control.is_parked and not pauses:
                    pauses.append(control.get_state()["step"])
                    control.resume()

            control.sinks.subscribe(resume_once)
            control.run_until(step=steps - 1)

        return lambda acknowledge: acknowledge(rank(life, steps, prepare))

    assert {"all_reduce", "all_gather_object", "broadcast", "barrier"} <= {*COLLECTIVES}
    for life, steps in (("one", 4), ("two", 6)):
        ranks = pair(tmp_path, in_session=in_session)
        children = [ForkedChild(work(rank, life, steps)) for rank in ranks]
        digests = [child.wait(timeout_s=60.0)[-1] for child in children]
        assert digests[0] == digests[1], digests
        assert isinstance(digests[0], str), digests
    assert resumed_steps(tmp_path) == [[4], [4]]
    assert store(tmp_path, 0).steps[0] == 6


class Sharded(FullyShardedDataParallel):
    """As FSDP on a GPU: its state is gathered from all ranks."""

    def __init__(self, module: torch.nn.Module) -> None:
        torch.nn.Module.__init__(self)
        self.inner = module

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)

    def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise AssertionError("the state of a sharded model was read")


def sharded_parts() -> tuple[Any, Any, Any]:
    model = torch.nn.Sequential(Sharded(torch.nn.Linear(3, 2)))
    data = TensorDataset(torch.randn(24, 3), torch.randn(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, DataLoader(data, batch_size=2)


@DRIVERS
def test_the_state_of_a_sharded_model_is_not_read_and_a_fact_says_so(tmp_path, in_session):
    model, optimizer, loader = sharded_parts()
    settings = {"save_dir": tmp_path, "run_name": "run", "checkpoint_every_steps": 2}
    if in_session:
        config = SessionConfig(**settings)
        with Session(model, optimizer, torch.nn.MSELoss(), loader, config=config) as session:
            session.fit(steps=14)
            refused = session.rewind.describe()["reason"]
    else:
        with attach(model, optimizer, loader, **settings) as run:
            for _ in run.epochs(2):
                for x, y in loader:
                    torch.nn.functional.mse_loss(model(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            refused = run._loop._engine.rewind.describe()["reason"]
    assert "FullyShardedDataParallel" in refused
    events = FactsReader(tmp_path / "run").events()
    (fact,) = [event for event in events if event.get("kind") == "checkpoints_off"]
    assert "FullyShardedDataParallel" in fact["reason"]
    assert events[-1]["status"] == "finished"
    assert not CheckpointStore(tmp_path / "run").names()


def test_a_resume_of_a_sharded_model_is_refused(tmp_path):
    model, optimizer, loader = sharded_parts()
    config = SessionConfig(save_dir=tmp_path, run_name="run", resume="auto")
    with (
        pytest.raises(ConfigError, match=r"sharded over ranks \(FullyShardedDataParallel\)"),
        Session(model, optimizer, torch.nn.MSELoss(), loader, config=config) as session,
    ):
        session.fit(steps=1)


def test_a_parameter_that_is_a_distributed_tensor_is_noticed(tmp_path):
    def work(acknowledge: Acknowledge) -> None:
        from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

        method = f"file://{tmp_path / 'store'}"
        dist.init_process_group("gloo", init_method=method, rank=0, world_size=1)
        model = torch.nn.Linear(2, 2)
        mesh = init_device_mesh("cpu", (1,))
        model.weight = torch.nn.Parameter(distribute_tensor(model.weight, mesh, [Replicate()]))
        acknowledge(why_no_state(model))

    (reason,) = ForkedChild(work).wait(timeout_s=60.0)
    assert "(DTensor)" in reason
    assert why_no_state(torch.nn.Linear(2, 2)) is None


@DRIVERS
def test_a_resume_under_torchrun_without_a_group_is_refused(tmp_path, monkeypatch, in_session):
    monkeypatch.setenv("WORLD_SIZE", "2")
    model = torch.nn.Linear(3, 2)
    parts = model, torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(4, 3), torch.randn(4, 2)), batch_size=2)
    settings = {"save_dir": tmp_path, "run_name": "run", "resume": "auto"}
    config = SessionConfig(**settings)
    begin = (
        (lambda: Session(*parts, torch.nn.MSELoss(), loader, config=config).fit(steps=1))
        if in_session
        else attach(*parts, loader, **settings).start
    )
    with pytest.raises(ConfigError, match=r"WORLD_SIZE is 2.*init_process_group first"):
        begin()
    assert not (tmp_path / "run").exists()


MOVES = {
    "back": {"n": 1},
    "load_checkpoint": {},
    "set_hparams": {"lr": 0.5},
    "reset_session": {},
    "determinism_health": {},
}


def test_moves_on_one_rank_are_refused_with_the_reason(tmp_path):
    def work(rank: Rank) -> Callable[[Acknowledge], None]:
        def ask(session: Any) -> None:
            for name, payload in MOVES.items():
                future = session.controller.boundary.run_now(Command(name=name, payload=payload))
                reports.append(str(future.exception(timeout=0)))
            with pytest.raises(ControlError) as refused:
                session.certify()
            reports.append(str(refused.value))

        reports: list[str] = []
        return lambda acknowledge: (rank("one", 2, ask), acknowledge(reports))

    children = [ForkedChild(work(rank)) for rank in pair(tmp_path)]
    for number, child in enumerate(children):
        reports = child.wait(timeout_s=60.0)[-1]
        assert len(reports) == len(MOVES) + 1, reports
        assert all(f"rank {number} of 2" in words for words in reports), reports


def test_a_paused_rank_says_when_the_timeout_ends_and_resumes_by_itself(tmp_path):
    ranks = pair(tmp_path)
    ranks[0].timeout_s = 3.0

    def work(rank: Rank) -> Callable[[Acknowledge], None]:
        def prepare(session: Any) -> None:
            if rank.rank == 0:
                session.controller.run_until(2)
                session.controller.sinks.subscribe(lambda: note(session.controller))

        reasons: list[str] = []

        def note(controller: Any) -> None:
            if controller.is_parked and not reasons:
                reasons.append(controller.get_state()["reason"])

        def run(acknowledge: Acknowledge) -> None:
            rank("one", 4, prepare)
            acknowledge(reasons)

        return run

    children = [ForkedChild(work(rank)) for rank in ranks]
    reports = [child.wait(timeout_s=60.0)[-1] for child in children]
    (reason,) = reports[0]
    assert "timeout of the process group ends in 3 s, at" in reason
    assert "resumes by itself after 2 s" in reason
    events = FactsReader(tmp_path / "rank0").events()
    assert [e["who"] for e in events if e.get("command") == "resume"] == ["system"]
    assert any(e.get("kind") == "park_limit" for e in events)
    assert events[-1]["status"] == "finished"
