"""Neutrality: looked at or not, a training gives the same batches, losses and weights, bit for bit.

A part joins in one line:

    assert_neutral(conv_net, attached, tmp_path)

where `conv_net` builds a fresh training from a fixed seed and `attached` is a way to run it. A new
way (a session, an integration) is one function of `(Training, Trace, Scene)`.
"""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from midstep import view
from midstep.control import Command, DebugController
from midstep.control.breakpoints.rule_catalog import RULES
from midstep.core.errors import ControlError
from midstep.live import attach, serve
from midstep.session import hooks as ready_made
from midstep.session.hooks import Hook
from tests.control.loop import IN_VIEW

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "CONDITIONS",
    "Condition",
    "Scene",
    "Trace",
    "Training",
    "assert_neutral",
    "attached",
    "beside",
    "two_calls",
    "wait_until",
    "with_hooks",
    "with_media",
    "with_view",
]

PATIENCE_S = 60.0
ENDS = ("finished", "stopped", "failed")


@dataclass(kw_only=True)
class Training:
    """A small training, built anew from a fixed seed for each way of running it."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    loader: Any
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    """Forward pass: the loss of a batch."""
    ids: Callable[[Any], list[int]]
    """The sample ids that the dataset itself put into a batch."""
    criterion: torch.nn.Module | None = None
    """The loss module of the forward pass, if it has one."""
    epochs: int = 2


@dataclass
class Trace:
    """What a training did: everything that must not change by one bit."""

    ids: list[list[int]] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    end: dict[str, torch.Tensor] = field(default_factory=dict)

    def step(self, training: Training, batch: Any, loss: torch.Tensor) -> None:
        """Note one step."""
        self.ids.append(training.ids(batch))
        self.losses.append(float(loss.item()).hex())

    def close(self, training: Training) -> None:
        """Note weights, buffers, optimizer state and the global generator at the end."""
        self.end = {name: value.clone() for name, value in training.model.state_dict().items()}
        if training.criterion is not None:
            state = training.criterion.state_dict().items()
            self.end |= {f"loss {name}": value.clone() for name, value in state}
        for key, state in training.optimizer.state_dict()["state"].items():
            for name, value in state.items():
                self.end[f"optimizer {key} {name}"] = torch.as_tensor(value).clone()
        self.end["generator"] = torch.get_rng_state()


@dataclass(kw_only=True)
class Scene:
    """Where a way of running finds its controller, its folder, and whether a page is open."""

    controller: DebugController
    save_dir: Path
    page: bool = False
    subscribes: bool = False
    """Whether the page subscribes to every kind of capture, and reads what it is told of."""
    readers: list[threading.Thread] = field(default_factory=list)
    seen: dict[str, threading.Event] = field(
        default_factory=lambda: {
            kind: threading.Event() for kind in ("hello", "scalars", "capture")
        }
    )
    """Stream messages that the page has read."""

    def open_page(self, url: str | None) -> None:
        """Read the stream at `url` as a page does, until the server ends it."""
        if url is not None:
            reader = threading.Thread(target=self._read, args=(url,), name="test-page")
            reader.start()
            self.readers.append(reader)
            self.page_saw("hello")

    def page_saw(self, kind: str) -> None:
        """Wait until the page has read a message of this kind."""
        assert self.seen[kind].wait(PATIENCE_S), f"the page was sent no {kind}"

    def _read(self, url: str) -> None:
        base, token = url.split("/#token=")
        with _get(f"{base}/api/v1/runs", token) as answer:
            run_id = json.load(answer)["runs"][0]["id"]
        debug = f"{base}/api/v1/runs/{run_id}/debug"
        with _get(f"{base}/api/v1/stream?run={run_id}", token) as answer:
            for line in answer:
                message = json.loads(line[5:]) if line.startswith(b"data:") else {"type": "none"}
                if self.subscribes and message["type"] == "hello":
                    _subscribe(f"{debug}/streams/{message['stream']}/subscriptions", token)
                if message["type"] == "capture":
                    _fetch(debug, KINDS[message["id"]], token)
                if message["type"] in self.seen:
                    self.seen[message["type"]].set()


KINDS = {
    "batch": ("batch", "batch/picture", "batch/sample?index=0"),
    "step_data": ("step_data/keys",),
    "layers": ("step_data/layers",),
    "forces": ("forces",),
    "cosine_matrix": ("cosine_matrix",),
    "weights": ("cosine_matrix?source=weights",),
}
"""Every kind of subscription, and what a page then reads."""


def _subscribe(url: str, token: str) -> None:
    entries = [{"id": kind, "kind": kind} for kind in KINDS]
    body = json.dumps({"version": 1, "subscriptions": entries}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method="PUT")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert len(json.load(answer)["accepted"]) == len(entries)


def _fetch(debug: str, paths: tuple[str, ...], token: str) -> None:
    for path in paths:
        # The server may have closed, the run ended, or the training have nothing of this kind.
        with contextlib.suppress(OSError), _get(f"{debug}/{path}", token) as answer:
            answer.read()


def _get(url: str, token: str) -> Any:
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    return urllib.request.urlopen(asked, timeout=PATIENCE_S)


# -- ways of running ------------------------------------------------------------------------------

Way = Callable[[Training, Trace, Scene], None]


def bare(training: Training, trace: Trace) -> None:
    """The loop with nothing of ours in it."""
    for _ in range(training.epochs):
        for batch in training.loader:
            loss = training.loss(training.model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            training.optimizer.step()
            training.optimizer.zero_grad()
            trace.step(training, batch, loss)


def attached(
    training: Training,
    trace: Trace,
    scene: Scene,
    hooks: Callable[[], list[Hook]] = list,
    view: Any = None,
    media: Callable[[Training, Any], dict[str, Any]] = lambda _training, _batch: {},
) -> None:
    """The same loop under `attach`, perhaps with hooks, a view of its samples, or logged media."""
    with attach(
        training.model,
        training.optimizer,
        training.loader,
        loss_fn=training.criterion,
        save_dir=scene.save_dir,
        controller=scene.controller,
        serve=scene.page,
        port=0,
        view=view,
    ) as run:
        run.show(*hooks())
        scene.open_page(run.url)
        for _ in run.epochs(training.epochs):
            for batch in training.loader:
                loss = training.loss(training.model, batch)
                loss.backward()  # type: ignore[no-untyped-call]
                training.optimizer.step()
                training.optimizer.zero_grad()
                run.log(loss=loss, **media(training, batch))
                trace.step(training, batch, loss)


def with_media(training: Training, trace: Trace, scene: Scene) -> None:
    """The same loop under `attach` with a picture, a text, a histogram and a table in each step."""

    def logged(training: Training, batch: Any) -> dict[str, Any]:
        weight = next(iter(training.model.parameters()))
        return {
            "picture": weight.reshape(len(weight), -1),
            "weights": weight.flatten(),
            "words": str(training.ids(batch)),
            "ids": [{"id": each} for each in training.ids(batch)],
        }

    attached(training, trace, scene, media=logged)
    assert len(list(scene.save_dir.rglob("artifacts/media/*/index.json"))) == 4


def every_hook() -> list[Hook]:
    """All hooks that come along and need no name of a layer."""
    made = [getattr(ready_made, name) for name in ready_made.__all__]
    return [kind() for kind in made if kind not in (Hook, ready_made.Units)]


def with_hooks(training: Training, trace: Trace, scene: Scene) -> None:
    """The same loop under `attach` with every hook shown and every rule armed."""
    for rule in RULES:
        scene.controller.breakpoints.add_rule(rule, action="mark")
    attached(training, trace, scene, hooks=every_hook)
    for events in scene.save_dir.rglob("events*.jsonl"):
        assert "hook_off" not in events.read_text(), "a hook was switched off"


def with_view(training: Training, trace: Trace, scene: Scene) -> None:
    """The same loop under `attach` with every word of a view, whose function uses torch."""
    decoded: list[str] = []

    def text(ids: list[int]) -> str:
        decoded.append(" ".join(f"w{each}" for each in torch.tensor(ids).tolist()))
        return decoded[-1]

    names = [f"class {k}" for k in range(11)]
    shown = view(text=text, class_names=names, denormalize=(0.5, 0.5), sample_rate=8_000)
    attached(training, trace, scene, view=shown)
    for reader in scene.readers:  # what the page asked for is answered
        reader.join(PATIENCE_S)
    has_tokens = hasattr(training.model, "embedding")
    # Once it was tried, when the run was attached.
    assert (len(decoded) > 1) == (has_tokens and scene.subscribes), "the view was not used"


def two_calls(training: Training, trace: Trace, scene: Scene) -> None:
    """The same loop with the two call sites of its own."""
    control = scene.controller
    control.boundary.set_gradient_norm(lambda: _gradient_norm(training.model))
    with contextlib.ExitStack() as stack:
        if scene.page:
            page = serve(control, port=0, save_dir=scene.save_dir)
            scene.open_page(stack.enter_context(page).url)
        for _ in range(training.epochs):
            for batch in training.loader:
                loss = training.loss(training.model, batch)
                loss.backward()  # type: ignore[no-untyped-call]
                control.capture_batch(batch, loss, sample_ids=training.ids(batch))
                training.optimizer.step()
                training.optimizer.zero_grad()
                trace.step(training, batch, loss)
                assert control.wait_if_paused()
        control.boundary.finish()


def _gradient_norm(model: torch.nn.Module) -> torch.Tensor:
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)


# -- conditions -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Somebody who looks, and what they do from a thread of their own."""

    prepare: Callable[[DebugController, Training], object] = lambda _control, _training: None
    """Called before the first step."""
    drive: Callable[[Scene], object] = lambda _scene: None
    """Called in a thread beside the training."""
    page: bool = False
    """Whether a page is open, read over HTTP."""
    subscribes: bool = False
    """Whether the page shows everything there is to show."""


def wait_until(control: DebugController, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait, without polling, until the controller's state satisfies `holds`; gives that state."""
    changed = threading.Event()
    unsubscribe = control.sinks.subscribe(changed.set)
    try:
        while not holds(state := control.get_state()):
            assert changed.wait(PATIENCE_S), f"nothing changed for {PATIENCE_S} s: {state}"
            changed.clear()
        return state
    finally:
        unsubscribe()


def _parked_or_over(control: DebugController) -> bool:
    """Wait for the next park; False when the training is over instead."""
    state = wait_until(control, lambda state: state["parked"] or state["state"] in ENDS)
    return bool(state["parked"])


def _start_paused(control: DebugController, _training: Training) -> None:
    control.pause()


def _pause_and_resume(scene: Scene) -> None:
    """Stand at the start, at step 3, and wherever further pauses catch the loop."""
    control = scene.controller
    assert _parked_or_over(control)
    control.run_until(step=3)
    wait_until(control, lambda state: state["parked"] and state["step"] == 3)
    if scene.page:
        scene.page_saw("scalars")
    if scene.subscribes:
        scene.page_saw("capture")
    control.resume()
    with contextlib.suppress(ControlError):  # the training may be over before the pause is asked
        for _ in range(3):
            control.pause()
            if _parked_or_over(control):
                control.get_batch()
                control.resume()


def _step_by_step(scene: Scene) -> None:
    control = scene.controller
    assert _parked_or_over(control)
    for n in (1, 1, 2, 1):
        before = control.get_state()["step"]
        control.step(n)
        wait_until(control, lambda s, at=before + n: s["parked"] and s["step"] == at)  # type: ignore[misc]
    control.resume()


def _watch(control: DebugController, training: Training) -> None:
    name, weight = next(iter(training.model.named_parameters()))
    control.watches.add_source(name, lambda: weight)
    control.watches.replace([0, 1], name)
    control.captures.viewer(*IN_VIEW)


def _look(scene: Scene) -> None:
    """Read everything there is to read, a hundred times a second, until the training is over."""
    control, pace = scene.controller, threading.Event()
    while control.get_state()["state"] not in ENDS:
        control.get_batch()
        control.get_trajectories()
        control.watches.pairwise()
        pace.wait(0.01)
    assert control.get_batch() is not None, "a watched training showed no batch"
    assert control.get_trajectories()[0], "a watched row has no points"


def _arm(control: DebugController, _training: Training) -> None:
    control.add_breakpoint("every", n=3)
    control.add_breakpoint("loss_z", limit=1.0, window=8)
    control.add_breakpoint("grad_norm", limit=0.01)
    control.add_breakpoint("sample", ids=[5])
    control.add_breakpoint("expression", expression="loss > 0 and step > 4")


def _resume_always(scene: Scene) -> None:
    """Let every hit pass. A resume more than there are hits changes nothing."""
    control = scene.controller
    while _parked_or_over(control):
        with contextlib.suppress(ControlError, TimeoutError):
            control.submit(Command(name="resume")).result(PATIENCE_S)
    assert any(each.hits for each in control.list_breakpoints()), "no breakpoint was hit"


CONDITIONS: dict[str, Condition] = {
    "attached": Condition(),
    "paused": Condition(prepare=_start_paused, drive=_pause_and_resume),
    "stepped": Condition(prepare=_start_paused, drive=_step_by_step),
    "watched": Condition(prepare=_watch, drive=_look),
    "breakpoint": Condition(prepare=_arm, drive=_resume_always),
    "page": Condition(prepare=_start_paused, drive=_pause_and_resume, page=True),
    "subscribed": Condition(
        prepare=_start_paused, drive=_pause_and_resume, page=True, subscribes=True
    ),
}


# -- the checker ----------------------------------------------------------------------------------


def assert_neutral(
    make_training: Callable[[], Training],
    way: Way,
    save_dir: Path,
    conditions: dict[str, Condition] = CONDITIONS,
) -> None:
    """Run the bare loop once and `way` under every condition; all traces must be equal.

    Args:
        make_training: builds a fresh training; it seeds torch itself.
        way: runs it with something of ours in it.
        save_dir: where runs may be written.
        conditions: who looks; all of them when left out.
    """
    expected = Trace()
    training = make_training()
    bare(training, expected)
    expected.close(training)
    for name, condition in conditions.items():
        assert_equal(_looked_at(make_training, way, save_dir / name, condition), expected, name)


def _looked_at(
    make_training: Callable[[], Training], way: Way, save_dir: Path, condition: Condition
) -> Trace:
    scene = Scene(
        controller=DebugController(),
        save_dir=save_dir,
        page=condition.page,
        subscribes=condition.subscribes,
    )
    training, trace = make_training(), Trace()
    condition.prepare(scene.controller, training)
    with beside(condition.drive, scene):
        way(training, trace, scene)
    trace.close(training)
    for reader in scene.readers:
        reader.join(PATIENCE_S)
        assert not reader.is_alive(), "the page still reads after the server has ended"
    return trace


@contextlib.contextmanager
def beside(drive: Callable[[Scene], object], scene: Scene) -> Iterator[None]:
    """Run `drive` in a thread; its failure fails the test, after letting the training end."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            drive(scene)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)
            scene.controller.stop()

    thread = threading.Thread(target=guarded, name="test-driver")
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the driver hangs"
        if failures:
            raise failures[0]


def assert_equal(trace: Trace, expected: Trace, condition: str) -> None:
    """Name the first difference, under which condition."""
    assert trace.ids == expected.ids, f"{condition}: other batches"
    assert trace.losses == expected.losses, f"{condition}: other losses"
    assert trace.end.keys() == expected.end.keys(), f"{condition}: other tensors"
    for name, value in expected.end.items():
        assert torch.equal(trace.end[name], value), f"{condition}: {name} differs"
