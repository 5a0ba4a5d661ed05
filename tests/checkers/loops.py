"""Scripts with loops of any shape (`examples/loops`): neutral, resumed, killed and taken back.

A script joins by its name in `SCRIPTS`. It is run as it stands; only where it writes, and what it
logs, is in the hands of the checker. A resume or going back is exact, or named inexact, or refused.
"""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import midstep
from midstep.control import Command, DebugController
from midstep.core.errors import ControlError
from midstep.session.state.training_parts import as_model, as_optimizers
from tests.checkers.lives import (
    Fault,
    Life,
    Outcome,
    digest_of,
    inexact_facts,
    live,
    repeated_facts,
)
from tests.checkers.neutral import ENDS, PATIENCE_S, Condition, Scene, beside, wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "loops"


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script of the folder."""

    name: str
    argument: int = 12
    """Iterations of its loop."""
    steps: int = 12
    """Optimizer steps, counted as the run counts them."""


SCRIPTS = {
    script.name: script
    for script in (
        Script(name="char_lm"),
        Script(name="lbfgs"),
        Script(name="full_batch_graph"),
        Script(name="gan"),
        Script(name="reinforce"),
        Script(name="ppo"),
        Script(name="dqn", argument=54),
        Script(name="infinite_loader"),
        Script(name="trainer_class"),
    )
}


@dataclass
class Training:
    """What a script gave to `attach`, and what it logged."""

    model: Any = None
    optimizers: list[Any] = field(default_factory=list)
    losses: dict[int, str] = field(default_factory=dict)
    """The last loss of each step."""
    run: Any = None

    def tensors(self) -> Iterator[torch.Tensor]:
        """Everything that a later step depends on."""
        yield from self.model.state_dict().values()
        for optimizer in self.optimizers:
            yield from _leaves(optimizer.state_dict()["state"])
        yield torch.get_rng_state()
        yield torch.from_numpy(np.random.get_state(legacy=False)["state"]["key"].astype(np.int64))


def _leaves(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree.detach()
    elif isinstance(tree, dict):
        for key in sorted(tree, key=str):
            yield from _leaves(tree[key])
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _leaves(each)
    elif isinstance(tree, int | float):
        yield torch.tensor(float(tree), dtype=torch.float64)


def run_script(
    script: Script,
    training: Training,
    *,
    logged: Callable[[int, float], object] = lambda _step, _loss: None,
    **settings: Any,
) -> None:
    """Run a script to its end, with these settings for its `attach`."""
    whole = midstep.attach

    def attach(model: Any, optimizer: Any, loader: Any = None, **own: Any) -> Any:
        run = whole(model, optimizer, loader, **{**own, **settings})
        training.run, training.model = run, as_model(model)
        training.optimizers, _names = as_optimizers(optimizer)
        inner = run.log

        def log(**scalars: Any) -> None:
            inner(**scalars)
            if "loss" in scalars:
                loss = float(torch.as_tensor(scalars["loss"]).detach())
                training.losses[run.step + 1] = loss.hex()
                logged(run.step + 1, loss)

        run.log = log  # type: ignore[method-assign]
        return run

    with (
        mock.patch.object(midstep, "attach", attach),
        mock.patch.dict("os.environ", {"STEPS": str(script.argument)}),
        mock.patch.object(sys, "path", [str(FOLDER), *sys.path]),
    ):
        runpy.run_path(str(FOLDER / f"{script.name}.py"), run_name="__main__")


def bare(script: Script) -> Training:
    """The script with midstep switched off."""
    training = Training()
    with mock.patch.dict("os.environ", {"MIDSTEP_MODE": "off"}):
        run_script(script, training)
    return training


# -- neutral --------------------------------------------------------------------------------------


def assert_loop_neutral(script: Script, folder: Path, conditions: dict[str, Condition]) -> None:
    """Switched off, and under each condition: the same losses and the same last state."""
    expected = bare(script)
    digest = digest_of(expected.tensors())
    for name, condition in conditions.items():
        scene = Scene(controller=DebugController(), save_dir=folder / name)
        condition.prepare(scene.controller, expected)  # type: ignore[arg-type]
        training = Training()
        with beside(condition.drive, scene):
            run_script(
                script,
                training,
                save_dir=scene.save_dir,
                controller=scene.controller,
                resume="never",
            )
        # Switched off there is no step to number the losses by.
        last = training.losses[max(training.losses)]
        assert last == expected.losses[1], f"{name}: another last loss"
        assert digest_of(training.tensors()) == digest, f"{name}: another state at the end"
        assert training.run.step == script.steps


# -- resumed --------------------------------------------------------------------------------------


def assert_loop_resumes(
    script: Script, folder: Path, *faults: Fault, at: int = 7, **settings: Any
) -> list[str]:
    """Whole, and for each fault interrupted in step `at` and started again; each end in words."""

    def training(life: Life) -> list[torch.Tensor]:
        torch.set_num_threads(1)
        made = Training()

        def logged(step: int, loss: float) -> None:
            engine = made.run._loop._engine
            life.step_done(step, loss, made.run.controller, engine.writer)

        run_script(
            script, made, logged=logged, checkpoint_every_steps=3, **life.settings, **settings
        )
        return list(made.tensors())

    whole = live(training, folder / "whole")
    assert not whole.errors, whole.errors
    return [_resumed(training, whole, folder / fault, fault, at) for fault in faults]


def _resumed(
    training: Callable[[Life], list[torch.Tensor]],
    whole: Outcome,
    folder: Path,
    fault: Fault,
    at: int,
) -> str:
    """What came out of a training that is interrupted and started again."""
    first = live(training, folder, fault, at)
    last = live(training, folder)
    if last.errors:
        assert "exact" in last.errors[0], last.errors
        return f"refused: {last.errors[0]}"
    # The step that was interrupted may have logged only its first loss.
    losses = [*last.losses.items(), *((k, v) for k, v in first.losses.items() if k < at)]
    is_exact = last.digest == whole.digest and all(whole.losses[k] == loss for k, loss in losses)
    facts = repeated_facts(folder)
    named = [str(each["text"]) for each in facts if each["exact"] is False]
    if is_exact:
        assert not named, f"a false alarm: {named}"
        assert min(last.losses, default=at) > 1, "it began again"
        return "exact"
    named += [str(each["text"]) for each in facts if "not compared" in each["text"]]
    named += inexact_facts(folder)
    assert named, f"silently inexact: {facts}"
    return "; ".join(named)


# -- taken back -----------------------------------------------------------------------------------


@contextmanager
def training_thread(work: Callable[[], object], control: DebugController) -> Iterator[None]:
    """Run `work` beside the block; the block ends when it has ended."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)

    thread = threading.Thread(target=guarded, name="training")
    thread.start()
    try:
        yield
    except BaseException:
        control.stop()
        raise
    finally:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the training did not end"
    if failures:
        raise failures[0]


def assert_loop_goes_back(
    run: Callable[..., object],
    training: Callable[[], Training],
    folder: Path,
    *,
    at: int = 8,
    distances: tuple[int, ...] = (1, 3),
) -> str:
    """Train whole, and once more with steps taken back and made again; what came out, in words.

    Args:
        run: runs the loop with a `Training` and settings for `attach`.
        training: makes an empty one.
        folder: where runs are written.
        at: the step to go back from.
        distances: how many steps to go back, one after the other.
    """
    whole, again = training(), training()
    run(whole, save_dir=folder / "whole", run_name="whole", resume="never")
    control = DebugController()
    control.pause()
    settings = {"save_dir": folder, "run_name": "back", "resume": "never", "controller": control}
    words: list[str] = []
    with training_thread(lambda: run(again, **settings), control):
        wait_until(control, _parked_at(0))
        control.run_until(step=at)
        wait_until(control, _parked_at(at))
        for n in distances:
            try:
                answer = control.submit(Command(name="back", payload={"n": n})).result(PATIENCE_S)
            except ControlError as error:
                words.append(f"refused: {error}")
                continue
            wait_until(control, _parked_at(at - n))
            if answer["exact"] is False:
                words.append(str(answer["text"]))
            control.step(n)
            state = wait_until(control, _parked_at(at))
            if state["repeated"] is not None and state["repeated"]["exact"] is False:
                words.append(str(state["repeated"]["text"]))
        control.resume()
        wait_until(control, lambda state: state["state"] in ENDS)
    is_exact = again.losses == whole.losses
    is_exact &= digest_of(again.tensors()) == digest_of(whole.tensors())
    if is_exact:
        false = [each for each in words if not each.startswith("refused")]
        assert not false, f"a false alarm: {false}"
        return "; ".join(words) or "exact"
    assert words, "silently inexact"
    return "; ".join(words)


def _parked_at(step: int) -> Callable[[dict[str, Any]], bool]:
    return lambda state: bool(state["parked"] and state["step"] == step)
