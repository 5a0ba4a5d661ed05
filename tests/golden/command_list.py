"""The commands of a run as plain data: names, payload fields, and the shape of results."""

from __future__ import annotations

import dataclasses
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from midstep import DebugController
from tests.golden.trainings import AttachedTraining, SessionTraining, ask, training_in_thread

EXAMPLES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "attach": [
        ("step", {"n": 3}),
        ("influence", {"samples": 4}),
        ("back", {"n": 1}),
        ("back", {"step": 1}),
        ("save_checkpoint", {}),
        ("set_hparams", {"lr": 0.01, "betas": [0.8, 0.9], "eps": 1e-7, "wd_mul": 2.0}),
        ("step", {}),
        ("load_checkpoint", {"step": 1}),
        ("run_until", {"step": 5}),
        ("saveCheckpoint", {}),
        ("resume", {}),
        ("pause", {}),
        ("stop", {}),
    ],
    "session": [
        ("step", {"n": 2}),
        ("influence", {}),
        ("save_checkpoint", {}),
        ("set_hparams", {"lr_mul": 0.5, "weight_decay": 0.1}),
        ("step", {}),
        ("determinism_health", {"steps": 1}),
        ("test_now", {}),
        ("back", {"n": 1}),
        ("back", {"step": 0}),
        ("load_checkpoint", {}),
        ("reset_session", {}),
        ("run_until", {"step": 4}),
        ("resume", {}),
        ("pause", {}),
        ("stop", {}),
    ],
}
"""Commands that are sent to each run, in this order; what they give is recorded."""


def recorded(kind: str, folder: Path) -> dict[str, Any]:
    """The commands of one kind of run, and what the examples gave."""
    controller = DebugController()
    with training_in_thread(controller, _target(kind, controller, folder)):
        commands = described(controller)
        examples = [
            {"command": name, "payload": payload, "result": shape(ask(controller, name, **payload))}
            for name, payload in EXAMPLES[kind]
        ]
    return {"commands": commands, "examples": examples}


def _target(kind: str, controller: DebugController, folder: Path) -> Any:
    def attached() -> None:
        training = AttachedTraining(controller)
        with training.attach(save_dir=folder) as run:
            training.train(run, epochs=10_000)

    def session() -> None:
        training = SessionTraining(controller, save_dir=folder)
        with training.session:
            training.session.fit(epochs=10_000)

    return attached if kind == "attach" else session


def described(controller: DebugController) -> dict[str, Any]:
    """Every command that the run offers, with the fields of its payload."""
    registry = controller.queue.registry
    return {
        name: _fields(registry[name].payload) for name in sorted(controller.get_state()["offers"])
    }


def _fields(payload: type) -> dict[str, Any]:
    hints = get_type_hints(payload)
    return {
        field.name: {
            "types": sorted(_type_names(hints[field.name])),
            **({} if field.default is dataclasses.MISSING else {"default": field.default}),
        }
        for field in dataclasses.fields(payload)
    }


def _type_names(hint: Any) -> set[str]:
    if isinstance(hint, types.UnionType) or get_origin(hint) is Union:
        return {name for each in get_args(hint) for name in _type_names(each)}
    return {str(hint) if get_args(hint) else hint.__name__}


def shape(value: Any) -> Any:
    """Names and types of a result, without its values; of a list, its first entry."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shape(item) for item in value[:1]]
    return type(value).__name__
