"""Going on where a run stopped: which checkpoint, whether it is the same training, what differs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, FormatError
from midstep.data.random_state import find_generators, preserve_rng
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.checkpoint.fingerprint import differences, fingerprints
from midstep.session.config import SessionConfig
from midstep.session.fit.trainer import Trainer, TrainingParts
from midstep.session.state.snapshot import Snapshot
from midstep.session.state.training_parts import extra_state_differs

if TYPE_CHECKING:
    import torch

__all__ = [
    "ResumePoint",
    "changed_fields",
    "find_resume_point",
    "fingerprints_of",
    "restore_resume_point",
]

log = logging.getLogger("midstep.session")
ORDERING = frozenset({"dataset", "batch_size", "seed", "order_policy"})
"""Changes after which the place in an epoch means nothing; the epoch is begun anew."""


@dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """A checkpoint to go on from."""

    snapshot: Snapshot
    path: Path
    problems: list[str]
    """Why newer ones were passed over."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Fields that differ and were allowed to, each with what changed."""


def fingerprints_of(parts: TrainingParts, config: SessionConfig) -> dict[str, Any]:
    """By what the training is known again; 32 items are read, and no generator notices."""
    loader = parts.train_loader
    with preserve_rng(find_generators(loader.dataset, depth=2)):
        found = fingerprints(
            model=parts.model,
            optimizer=parts.optimizer,
            dataset=loader.dataset,
            batch_size=getattr(loader, "batch_size", None),
            seed=config.seed,
        )
    return {
        **found,
        "order_policy": config.data_order_policy,
        "accumulate_steps": config.accumulate_steps,
        "also": parts.extra_state.names,
    }


def find_resume_point(config: SessionConfig, now: Mapping[str, Any]) -> ResumePoint | None:
    """The newest whole checkpoint of the run, checked against the training as it is now.

    Args:
        config: where the run lives, and what may differ.
        now: the fingerprints of the training that is to go on.

    Raises:
        ConfigError: there is none but `must`, or it is of another training.
    """
    if config.resume == "never" or config.run_name is None:
        return None
    run_dir = Path(config.save_dir) / config.run_name
    found = CheckpointStore(run_dir, keep=config.checkpoint_keep).newest_valid()
    if found is None:
        if config.resume == "must":
            raise ConfigError(
                f'resume="must" found no checkpoint in {run_dir}; check save_dir and run_name, or '
                'begin with resume="auto"'
            )
        return None
    changed = changed_fields(found.snapshot.fingerprints, now)
    # Checkpoints and facts call the user's own parts `also`, as they did from the start.
    allowed = {"also" if name == "extra_state" else name for name in config.allow_changed}
    refused = [words for name, words in changed.items() if name not in allowed]
    if refused:
        raise ConfigError(
            f"the checkpoint {found.path} is of another training: {'; '.join(refused)}"
        )
    return ResumePoint(
        snapshot=found.snapshot, path=found.path, problems=found.problems, changed=changed
    )


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """What differs between two trainings by their fingerprints, by field, in words."""
    told = {name: differences({name: old[name]}, {name: new.get(name)}) for name in old}
    changed = {name: lines[0] for name, lines in told.items() if lines}
    if words := extra_state_differs(old.get("also", []), new.get("also", [])):
        changed["also"] = f"{words}; if that is meant, resume with allow_changed=('extra_state',)"
    return changed


def restore_resume_point(training: Trainer, resumed: ResumePoint) -> None:
    """Stand where the checkpoint was taken, as far as what was allowed to change lets us."""
    if not resumed.changed:
        training.restore(resumed.snapshot)
        return
    _put_changed(training, resumed)


def _put_changed(training: Trainer, resumed: ResumePoint) -> None:
    """Part by part: what differs is kept as it is now, the rest is put back."""
    snapshot, changed, parts = resumed.snapshot, resumed.changed.keys(), training.parts
    states = snapshot.states
    if "model" in changed:
        _load_fitting(parts.model, states["model"])
    else:
        parts.model.load_state_dict(states["model"])
    if "optimizer" in changed or "model" in changed:
        _load_moments(parts.optimizer, states["optimizer"], resumed)
    else:
        parts.optimizer.load_state_dict(states["optimizer"])
        if parts.scheduler is not None and "scheduler" in states:
            parts.scheduler.load_state_dict(states["scheduler"])
    if training.scaler is not None and "scaler" in states:
        training.scaler.load_state_dict(states["scaler"])
    parts.extra_state.load_known(states.get("also", {}))
    training.progress.load_state_dict(states["progress"])
    if changed & ORDERING:
        training.begin_epoch_anew(snapshot.epoch)
    else:
        training.put_place(snapshot)
    training.step, training.timeline = snapshot.step, snapshot.timeline


def _load_fitting(model: torch.nn.Module, state: Mapping[str, Any]) -> None:
    """Every tensor whose name and shape are the same; the others stay as they are."""
    own = model.state_dict()
    fitting = {
        name: value
        for name, value in state.items()
        if name in own and getattr(own[name], "shape", None) == getattr(value, "shape", None)
    }
    if not fitting:
        raise FormatError("nothing in the checkpoint fits this model")
    model.load_state_dict({**own, **fitting})


def _load_moments(optimizer: Any, state: Mapping[str, Any], resumed: ResumePoint) -> None:
    """The optimizer's memory, with the settings that it has now; nothing if it does not fit."""
    saved = resumed.snapshot.fingerprints.get("optimizer") or {}
    own = optimizer.state_dict()
    sizes = [len(group["params"]) for group in own["param_groups"]]
    kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    if (
        saved.get("class") == kind
        and saved.get("groups") == sizes
        and "model" not in (resumed.changed)
    ):
        optimizer.load_state_dict({"state": state["state"], "param_groups": own["param_groups"]})
    else:
        log.warning("the optimizer begins without its memory: it is not that of the checkpoint")
