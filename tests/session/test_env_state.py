"""`env_state`: what is restored acts as before, bit for bit; what cannot be saved is named."""

from __future__ import annotations

import enum
import logging
import random
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from midstep import env_state
from midstep.core.errors import ConfigError
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.extra_state import ExtraState
from midstep.session.state.snapshot import Snapshot

Steps = Callable[[Any, int], list[Any]]


def through_disk(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a checkpoint makes of a state."""
    CheckpointStore(folder).save(Snapshot.take({"also": Fixed(state)}, step=1))
    loaded: dict[str, Any] = CheckpointStore(folder).load(1).states["also"]
    return loaded


class Fixed:
    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


def assert_acts_the_same(
    make: Callable[[], Any], act: Steps, folder: Path, *, before: int = 7, after: int = 60
) -> None:
    """Go on from a state in the same environment, as `back` does, and in a new one, as a resume."""
    env = make()
    state = env_state(env)
    act(env, before)
    taken = Snapshot.take({"also": state}, step=1).states["also"]
    assert taken["unsaved"] == []
    wanted = act(env, after)
    stored = through_disk(taken, folder)
    for target, saved in ((env, stored), (make(), stored), (make(), taken)):
        restored = env_state(target)
        restored.load_state_dict(Snapshot.take({"also": Fixed(saved)}, step=1).states["also"])
        assert restored.unsaved == []
        assert_same_bits(act(target, after), wanted)


def assert_same_bits(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other)
    for left, right in zip(map(np.asarray, one), map(np.asarray, other), strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


# -- an environment of our own, with one of everything --------------------------------------------


class Mode(enum.Enum):
    CALM = 1
    WILD = 2


@dataclass
class Ball:
    at: np.ndarray[Any, Any]
    hits: int = 0
    marks: list[int] = field(default_factory=list)


class Player:
    """A plain object that knows the world it is in."""

    def __init__(self, world: Any) -> None:
        self.world, self.score, self.rng = world, 0.0, random.Random(4)


class Field:
    def __init__(self) -> None:
        self.ball, self.mode = Ball(np.zeros(3)), Mode.CALM
        self.players = [Player(self), Player(self)]
        self.turn = self.players[0]
        self.recent: deque[Any] = deque(maxlen=4)
        self.seen: Counter[int] = Counter()
        self.cells: set[int] = {3}
        self.table = OrderedDict(a=np.arange(4), b=torch.zeros(2))
        self.settings = SimpleNamespace(noise=0.1)
        self.torch_rng = torch.Generator().manual_seed(1)
        self.old_rng = np.random.RandomState(2)
        self.log, self.folder, self.reward = logging.getLogger("x"), Path(), lambda x: x * 2
        self.self = weakref.proxy(self)
        self.last: Any = None

    def reset(self) -> None:
        self.np_random = np.random.default_rng(7)

    def step(self, action: int) -> list[Any]:
        if not hasattr(self, "np_random"):
            self.reset()
        self.ball.at = self.ball.at + self.np_random.standard_normal(3) * self.settings.noise
        self.ball.hits += 1
        self.ball.marks.append(action)
        self.turn.score += self.turn.rng.random()
        self.turn = self.players[action % 2]
        self.mode = Mode.WILD if self.ball.hits % 3 == 0 else Mode.CALM
        self.recent.append(self.ball.at)
        self.seen[action % 5] += 1
        self.cells.add(self.ball.hits)
        self.table["a"] += self.old_rng.randint(9)
        self.table["b"] += torch.rand(2, generator=self.torch_rng)
        self.last = self.ball.at
        self.settings.noise *= 1.01
        assert self.turn.world is self
        return [
            self.ball.at.copy(),
            sum(self.ball.marks),
            *(each.score for each in self.players),
            self.mode.value,
            np.sum(list(self.recent), axis=0),
            sorted(self.seen.items()),
            sum(self.cells),
            self.table["a"].copy(),
            self.table["b"].clone().numpy(),
            self.last is self.ball.at,
        ]


class Wrapper:
    """Without a `reset` in the class: found through `__getattr__`, as in some wrappers."""

    def __init__(self, env: Any) -> None:
        self.env, self.count = env, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["env"], name)

    def step(self, action: int) -> list[Any]:
        self.count += 1
        return [*self.env.step(action), self.count]


def play(env: Any, steps: int) -> list[Any]:
    return [each for action in range(steps) for each in env.step(action)]


def test_an_environment_of_plain_objects_comes_back_whole(tmp_path: Path) -> None:
    assert_acts_the_same(lambda: Wrapper(Field()), play, tmp_path)


def test_the_state_before_the_first_reset_comes_back_too(tmp_path: Path) -> None:
    """The generator that `reset` made is gone again."""
    assert_acts_the_same(Field, play, tmp_path, before=0)


class Odd(Field):
    """Has what no checkpoint can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.thread = threading.Thread()
        self.pieces = [1, object(), 2]
        self.file = (line for line in ())
        self.whole = np.arange(6.0)
        self.part = self.whole[2:]


def test_what_cannot_be_saved_is_named_by_its_path_and_left_alone(tmp_path: Path) -> None:
    env = Odd()
    state = env_state(Wrapper(env))
    taken = through_disk(state.state_dict(), tmp_path)
    names = ["env.lock", "env.thread", "env.pieces.1", "env.file", "env.part"]
    assert state.unsaved == taken["unsaved"] == names
    wanted, lock, piece = play(env, 9), env.lock, env.pieces[1]
    env.pieces[2] = 5
    state.load_state_dict(taken)
    assert state.unsaved == names
    assert (env.lock, env.pieces) == (lock, [1, piece, 2])
    assert_same_bits(play(env, 9), wanted)
    extra = ExtraState({"env": state})
    [words] = extra.unsaved()
    assert words.startswith("extra_state.env.env.lock, extra_state.env.env.thread")
    assert words.endswith("and others cannot be saved")


def test_what_the_present_environment_lacks_is_named(tmp_path: Path) -> None:
    taken = env_state(Field()).state_dict()
    other = Field()
    del other.ball, other.players[1]
    state = env_state(other)
    state.load_state_dict(taken)
    assert state.unsaved == ["ball", "players.1", "players"]


def test_memory_that_processes_share_stays_shared() -> None:
    memory = bytearray(24)

    class Shared(Field):
        def __init__(self) -> None:
            super().__init__()
            self.seen_by_all = np.frombuffer(memory, dtype="f8")

    env = Shared()
    env.seen_by_all[:] = [1.0, 2.0, 3.0]
    state = env_state(env)
    taken = Snapshot.take({"also": state}, step=0).states["also"]
    env.seen_by_all[:] = 0
    state.load_state_dict(taken)
    assert np.frombuffer(memory, dtype="f8").tolist() == [1.0, 2.0, 3.0]


def test_another_environment_or_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="with step and reset, got a dict"):
        env_state({})
    with pytest.raises(ConfigError, match="is a Wrapper, the snapshot has a Field"):
        env_state(Wrapper(Field())).load_state_dict(env_state(Field()).state_dict())


# -- Gymnasium ------------------------------------------------------------------------------------


@pytest.fixture
def gym(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "hide")  # Gymnasium would set it for good
    return pytest.importorskip("gymnasium")


def drive(env: Any, steps: int) -> list[Any]:
    """Act at random by the environment's own space, reset where an episode ends."""
    if not vars(env).get("was_begun"):
        env.was_begun = True
        env.reset(seed=3)
        env.action_space.seed(5)
    rows: list[Any] = []
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rows += [observation, reward, terminated, truncated]
        if np.any(terminated | truncated) and not hasattr(env, "num_envs"):
            rows.append(env.reset()[0])
    return rows


def test_cart_pole_with_wrappers_repeats_its_episodes(gym: Any, tmp_path: Path) -> None:
    def make() -> Any:
        inner = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
        return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(inner))

    assert_acts_the_same(make, drive, tmp_path)
    assert_acts_the_same(make, drive, tmp_path, before=0)


def test_a_vector_of_environments_repeats_its_episodes(gym: Any, tmp_path: Path) -> None:
    def make() -> Any:
        return gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)

    assert_acts_the_same(make, drive, tmp_path, after=80)
    assert_acts_the_same(lambda: gym.make_vec("CartPole-v1", 2), drive, tmp_path)


def test_processes_of_an_async_vector_are_named(gym: Any) -> None:
    envs = gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")], context="spawn")
    try:
        envs.reset(seed=1)
        state = env_state(envs)
        state.load_state_dict(Snapshot.take({"also": state}, step=0).states["also"])
        assert "processes.0" in state.unsaved
        envs.step(envs.action_space.sample())
    finally:
        envs.close()
