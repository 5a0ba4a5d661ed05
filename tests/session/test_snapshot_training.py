"""Every optimizer and scheduler of torch, saved and loaded into fresh ones, goes on bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers

from midstep.core.errors import ConfigError
from midstep.data.random_state import RandomState, preserve_rng
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot
from tests.session.same import assert_same

BEFORE, AFTER = 4, 4

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "Adam with a tensor lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01, t0=2),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, history_size=3, max_iter=3),
    "LBFGS with line search": lambda p: torch.optim.LBFGS(p, line_search_fn="strong_wolfe"),
    "Muon": lambda p: torch.optim.Muon([each for each in p if each.dim() == 2], lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "SGD without momentum": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD in two groups": lambda p: torch.optim.SGD(
        [{"params": p[:1], "lr": 0.2}, {"params": p[1:], "weight_decay": 0.1}], lr=0.1, momentum=0.5
    ),
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
}


class Decay:
    """A callable with a state: LambdaLR keeps its attributes."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, epoch: int) -> float:
        self.calls += 1
        return 0.9**self.calls


def cyclic(o: Any) -> Any:
    return schedulers.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.9)


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda epoch: 0.9**epoch),
    "LambdaLR with an object": lambda o: schedulers.LambdaLR(o, Decay()),
    "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda epoch: 0.95),
    "StepLR": lambda o: schedulers.StepLR(o, 3),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, [2, 5, 5]),
    "ConstantLR": lambda o: schedulers.ConstantLR(o, total_iters=5),
    "LinearLR": lambda o: schedulers.LinearLR(o, total_iters=6),
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.9),
    "SequentialLR": lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, total_iters=3), schedulers.MultiStepLR(o, [2, 3])], [5]
    ),
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 6),
    "ChainedScheduler": lambda o: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(o, total_iters=5), schedulers.ExponentialLR(o, 0.9)]
    ),
    "ReduceLROnPlateau": lambda o: schedulers.ReduceLROnPlateau(o, patience=0, cooldown=1),
    "CyclicLR": cyclic,
    "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=20),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 8),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=6),
}


class Tied(nn.Module):
    """An embedding tied to the head, dropout and batch norm: state of every kind."""

    def __init__(self, *, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 6, sparse=sparse)
        self.norm = nn.Identity() if sparse else nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(6, 12, bias=False)
        if sparse:
            self.head.requires_grad_(False)
        else:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.dropout(self.norm(self.embedding(ids))))


class Training:
    """A loop that draws from all three global generators and from one of its own."""

    def __init__(
        self,
        optimizer: str = "Adam",
        scheduler: str | None = None,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        torch.manual_seed(0)
        self.model = Tied(sparse=optimizer == "SparseAdam")
        wanted = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = OPTIMIZERS[optimizer](wanted)
        self.scheduler = None if scheduler is None else SCHEDULERS[scheduler](self.optimizer)
        self.scaler = scaler
        self.draw = torch.Generator().manual_seed(1)
        self.losses: list[float] = []

    @property
    def parts(self) -> dict[str, Any]:
        names = ("model", "optimizer", "scheduler", "scaler")
        return {name: getattr(self, name) for name in names}

    def step(self) -> None:
        ids = torch.randint(0, 12, (16,), generator=self.draw)
        ids[random.randrange(16)] = int(np.random.randint(12))

        def closure() -> Any:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(ids), ids)
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            return loss

        if self.scaler is None:
            loss = self.optimizer.step(closure)
        else:
            loss = closure()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.losses.append(loss.item())
        if isinstance(self.scheduler, schedulers.ReduceLROnPlateau):
            self.scheduler.step(loss.detach())
        elif self.scheduler is not None:
            self.scheduler.step()

    def take(self, step: int) -> Snapshot:
        return Snapshot.take(self.parts, step=step, generators={"order": self.draw})

    def restore(self, snapshot: Snapshot) -> None:
        snapshot.restore(self.parts, generators={"order": self.draw})


def assert_goes_on(make: Callable[[], Training], folder: Path) -> None:
    """Uninterrupted = saved, loaded into fresh parts, continued; in memory and through the disk."""
    random.seed(3)
    np.random.seed(3)
    whole = make()
    for _ in range(BEFORE):
        whole.step()
    kept = whole.take(BEFORE)
    path = CheckpointStore(folder).save(kept)
    for _ in range(AFTER):
        whole.step()
    wanted = whole.take(BEFORE + AFTER)
    assert path.name == str(BEFORE)
    for snapshot in (CheckpointStore(folder).load(), kept, kept):
        again = make()
        torch.rand(5), random.random(), np.random.rand()
        again.restore(snapshot)
        for _ in range(AFTER):
            again.step()
        assert again.losses == whole.losses[BEFORE:]
        found = again.take(BEFORE + AFTER)
        assert_same(found.state_tree(), wanted.state_tree())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_goes_on_bit_by_bit(optimizer: str, tmp_path: Path) -> None:
    assert_goes_on(lambda: Training(optimizer), tmp_path)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_goes_on_bit_by_bit(scheduler: str, tmp_path: Path) -> None:
    assert_goes_on(lambda: Training("SGD in two groups", scheduler), tmp_path)


def test_a_scheduler_over_a_tensor_learning_rate_goes_on(tmp_path: Path) -> None:
    assert_goes_on(lambda: Training("Adam with a tensor lr", "ExponentialLR"), tmp_path)


def test_every_optimizer_and_scheduler_of_torch_is_in_the_lists() -> None:
    left_out = {"Optimizer", "lr_scheduler", "swa_utils", "swap_in_optimizer_params_and_state"}
    names = {name.split(" ", maxsplit=1)[0] for name in OPTIMIZERS}
    assert set(torch.optim.__all__) - left_out <= names
    assert set(schedulers.__all__) - {"LRScheduler"} <= {n.split(" ")[0] for n in SCHEDULERS}


@pytest.mark.parametrize("enabled", [True, False])
def test_a_gradient_scaler_goes_on_bit_by_bit(enabled: bool, tmp_path: Path) -> None:
    def make() -> Training:
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3, enabled=enabled)
        return Training("AdamW", "StepLR", scaler)

    assert_goes_on(make, tmp_path)


def test_a_snapshot_shares_nothing_with_the_training() -> None:
    training = Training("SGD", "MultiStepLR")
    training.step()
    kept = training.take(1)
    before = kept.state_tree()
    copy = Snapshot.take(training.parts, step=1, generators={"order": training.draw}).state_tree()
    for _ in range(3):
        training.step()
    training.restore(kept)
    for _ in range(3):
        training.step()
    assert_same(before, copy)


def test_tied_weights_stay_tied_and_take_their_memory_once(tmp_path: Path) -> None:
    training = Training()
    kept = training.take(0)
    weight = training.model.embedding.weight
    assert kept.bytes < 2 * weight.numel() * 4
    CheckpointStore(tmp_path).save(kept)
    for snapshot in (kept, CheckpointStore(tmp_path).load()):
        state = snapshot.states["model"]
        state["embedding.weight"].zero_()
        assert state["head.weight"].abs().sum() == 0


# -- random states ---------------------------------------------------------------------------------


def drawn(generators: dict[str, Any]) -> list[Any]:
    own = [
        torch.rand(2, generator=generators["torch"]).tolist(),
        generators["numpy"].normal(),
        generators["old"].normal(),
        generators["python"].gauss(0, 1),
    ]
    return [*own, random.gauss(0, 1), np.random.normal(), torch.randn(3).tolist()]


def test_every_generator_is_put_back_exactly(tmp_path: Path) -> None:
    generators = {
        "torch": torch.Generator().manual_seed(2),
        "numpy": np.random.default_rng(2),
        "old": np.random.RandomState(2),
        "python": random.Random(2),
    }
    drawn(generators)  # half of a pair of normal numbers now waits in some of them
    kept = Snapshot.take({}, step=0, generators=generators, worker_base_seed=2**62 + 1)
    CheckpointStore(tmp_path).save(kept)
    wanted = [drawn(generators) for _ in range(3)]
    loaded = CheckpointStore(tmp_path).load()
    assert loaded.random.worker_base_seed == 2**62 + 1
    for snapshot in (kept, loaded):
        snapshot.restore({}, generators=generators)
        assert [drawn(generators) for _ in range(3)] == wanted


def test_the_generators_at_the_start_of_the_epoch_are_kept_beside(tmp_path: Path) -> None:
    begun = RandomState.take()
    first = torch.rand(2)
    CheckpointStore(tmp_path).save(Snapshot.take({}, step=1, epoch_random=begun))
    loaded = CheckpointStore(tmp_path).load().epoch_random
    assert loaded is not None
    loaded.restore()
    assert torch.equal(torch.rand(2), first)


def test_taking_a_snapshot_draws_nothing() -> None:
    model = nn.Linear(2, 2)
    before = RandomState.take().state_tree()
    Snapshot.take({"model": model}, step=0)
    with preserve_rng():
        torch.rand(1), random.random(), np.random.rand()
    assert_same(RandomState.take().state_tree(), before)


def test_other_generators_or_parts_are_refused_before_anything_changes() -> None:
    training = Training("SGD", "StepLR")
    kept = training.take(0)
    training.step()
    weight = training.model.head.weight.clone()
    with pytest.raises(ConfigError, match=r"generators \['order'\], but \[\]"):
        kept.restore(training.parts)
    with pytest.raises(ConfigError, match="of another kind"):
        kept.restore(training.parts, generators={"order": random.Random()})
    with pytest.raises(ConfigError, match=r"scheduler differ"):
        kept.restore({**training.parts, "scheduler": None}, generators={"order": training.draw})
    with pytest.raises(ConfigError, match=r"torch\.Generator"):
        Snapshot.take({}, step=0, generators={"x": 3})  # type: ignore[dict-item]
    assert torch.equal(training.model.head.weight, weight)


def test_the_model_alone_can_be_restored_without_touching_generators() -> None:
    training = Training()
    kept = Snapshot.take({"model": training.model}, step=0)
    before = RandomState.take().state_tree()
    kept.restore({"model": training.model}, random=False)
    assert_same(RandomState.take().state_tree(), before)
