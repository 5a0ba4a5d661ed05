"""Resuming: find the newest valid checkpoint, check that it fits the training, restore it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, FormatError
from midstep.data.random_state import find_generators, preserve_rng
from midstep.session.checkpoint.checkpoint_store import CheckpointStore, LoadedCheckpoint
from midstep.session.checkpoint.fingerprint import differences, fingerprints
from midstep.session.engine.rank_resume import agree_on_checkpoint, decline_resume
from midstep.session.engine.recorded_history import RecordedHistory
from midstep.session.ranks import RankGroup, why_no_state
from midstep.session.state.extra_state import extra_state_differs
from midstep.session.state.generators import GeneratorSearch
from midstep.session.state.training_parts import TrainingParts, clock_state

if TYPE_CHECKING:
    import torch

    from midstep.session.config import SessionConfig
    from midstep.session.ranks import RankMeeting
    from midstep.session.state.training_state import TrainingState

log = logging.getLogger("midstep.session")
ORDER_FIELDS = frozenset({"dataset", "batch_size", "seed", "order_policy", "world_size"})
"""If one of these changed, the position in the epoch has no meaning, so the epoch starts again."""


@dataclass(frozen=True, kw_only=True)
class ResumePoint(LoadedCheckpoint):
    """A checkpoint to continue from."""

    changed: Mapping[str, str] = field(default_factory=dict)
    """Fields that differ and are in `allow_changed`, each with its change in words."""

    def facts(self) -> Iterator[dict[str, Any]]:
        """The resume as interventions for the facts."""
        for problem in self.problems:
            yield {"kind": "checkpoint_refused", "reason": problem}
        for name, words in self.changed.items():
            yield {"kind": "change_allowed", "field": name, "reason": words}
        yield {
            "kind": "resume",
            "step": self.snapshot.step,
            "epoch": self.snapshot.epoch,
            "cursor": self.snapshot.cursor,
            "path": f"checkpoints/{self.path.name}",
        }


def training_fingerprints(parts: TrainingParts, config: SessionConfig) -> dict[str, Any]:
    """What identifies the training at a resume. Reads 32 items and moves no generator."""
    loader = parts.train_loader
    dataset = getattr(loader, "dataset", None)
    # Reading an item may draw from a generator that the dataset or one of its transforms uses.
    search = GeneratorSearch()
    search.look_at("dataset", dataset)
    with preserve_rng([*find_generators(dataset, depth=2), *search.generators.values()]):
        known = fingerprints(
            model=parts.model if why_no_state(parts.model) is None else None,
            optimizer=parts.optimizer,
            dataset=dataset,
            batch_size=getattr(loader, "batch_size", None),
            seed=config.seed,
        )
    return {
        **known,
        **further_optimizers(parts),
        "order_policy": config.data_order_policy,
        "accumulate_steps": config.accumulate_steps,
        "also": parts.extra_state.names,
        "world_size": 1 if (group := RankGroup.find()) is None else group.size,
    }


def further_optimizers(parts: TrainingParts) -> dict[str, Any]:
    """Fingerprints of all optimizers but the first, by their names in a snapshot."""
    pairs = list(zip(parts.optimizer_keys, parts.optimizers, strict=True))[1:]
    return {key: fingerprints(optimizer=optimizer)["optimizer"] for key, optimizer in pairs}


def find_resume_point(
    config: SessionConfig,
    current: Mapping[str, Any],
    *,
    meeting: RankMeeting | None = None,
) -> ResumePoint | None:
    """The newest valid checkpoint of the run, compared with the training as it is now.

    Args:
        config: where the run is, and which fields may differ.
        current: the fingerprints of the training now.
        meeting: of the ranks of this run; None without a process group.

    Raises:
        ConfigError: it belongs to another training, or there is none and `resume="must"`.
    """
    if config.resume == "never" or config.run_name is None:
        if meeting is not None:
            decline_resume(meeting)
        return None
    run_dir = Path(config.save_dir) / config.run_name
    store = CheckpointStore(run_dir, keep=config.checkpoint_keep)
    history = RecordedHistory.read(run_dir)
    if meeting is None:
        newest = store.newest_valid(among=history.has, refuse=history.refuse)
    else:
        newest = agree_on_checkpoint(meeting, store, history, config.resume)
    if newest is None:
        if config.resume == "must":
            raise ConfigError(
                f'resume="must" found no checkpoint in {run_dir}; check save_dir and run_name, or '
                'begin with resume="auto"'
            )
        return None
    changed = changed_fields(newest.snapshot.fingerprints, current)
    refused = {
        name: words for name, words in changed.items() if _setting(name) not in config.allow_changed
    }
    if refused:
        raise ConfigError(_other_training(newest.path, refused))
    return ResumePoint(**vars(newest), changed=changed)


def _other_training(path: Path, refused: Mapping[str, str]) -> str:
    problem = f"the checkpoint {path} belongs to another training: "
    remedies = (
        f"{words}; if that is intended, resume with allow_changed=({_setting(name)!r},)"
        for name, words in refused.items()
    )
    return problem + "; ".join(remedies)


def _setting(name: str) -> str:
    """The name of a fingerprint field in `allow_changed`."""
    # Checkpoints and facts call the user's extra state `also`, as they did from the start.
    return "extra_state" if name == "also" else name.partition(".")[0]


def changed_fields(saved: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, str]:
    """The fields in which two trainings differ by their fingerprints, each with its change."""
    changed = differences(saved, current)
    changed.pop("also", None)
    if words := extra_state_differs(saved.get("also", []), current.get("also", [])):
        changed["also"] = words
    return changed


def restore_resume_point(
    state: TrainingState, resume_point: ResumePoint, *, seek_data: bool = True
) -> None:
    """Restore the checkpoint; parts that were allowed to change keep what they are now.

    Args:
        state: of the training.
        resume_point: the checkpoint, and what has changed since.
        seek_data: whether to move the loader to the position of the checkpoint.
    """
    if not resume_point.changed:
        state.restore(resume_point.snapshot, seek_data=seek_data)
        return
    # `state.restore` would refuse parts that do not fit, so each part is loaded by itself.
    snapshot, changed = resume_point.snapshot, {_setting(each) for each in resume_point.changed}
    if "model" not in changed:
        state.check_fits(snapshot)
    parts, saved = state.parts, snapshot.states
    if "model" in changed:
        _load_matching(parts.model, saved["model"])
    else:
        parts.model.load_state_dict(saved["model"])
    if "optimizer" in changed or "model" in changed:
        _load_all_moments(parts, resume_point)
    else:
        _load_optimizers(parts, saved)
    if state.scaler is not None and "scaler" in saved:
        state.scaler.load_state_dict(saved["scaler"])
    parts.extra_state.load_known(saved.get("also", {}))
    state.restore_found(snapshot)
    state.progress.load_state_dict(saved["progress"])
    state.step, state.timeline = snapshot.step, snapshot.timeline
    if not changed & ORDER_FIELDS:
        state.restore_position(snapshot, seek_data=seek_data)
    elif seek_data:
        state.begin_epoch(snapshot.epoch)
    else:  # the epoch starts again, and the sums that were loaded above are of its first attempt
        state.progress.begin_epoch(state.step)


def _load_matching(model: torch.nn.Module, saved: Mapping[str, Any]) -> None:
    """Load every tensor with the same name and shape; leave the others unchanged."""
    current = model.state_dict()
    matching = {
        name: value
        for name, value in saved.items()
        if name in current
        and getattr(current[name], "shape", None) == getattr(value, "shape", None)
    }
    if not matching:
        raise FormatError("no tensor of the checkpoint has a name and shape of this model")
    model.load_state_dict({**current, **matching})


def _load_optimizers(parts: TrainingParts, saved: Mapping[str, Any]) -> None:
    for key, optimizer in zip(parts.optimizer_keys, parts.optimizers, strict=True):
        if key in saved:
            optimizer.load_state_dict(saved[key])
    if parts.scheduler is not None and "scheduler" in saved:
        parts.scheduler.load_state_dict(saved["scheduler"])


def _load_all_moments(parts: TrainingParts, resume_point: ResumePoint) -> None:
    saved = resume_point.snapshot.states
    _load_moments(parts.optimizer, clock_state(saved), resume_point)
    for key, optimizer in [*zip(parts.optimizer_keys, parts.optimizers, strict=True)][1:]:
        _load_moments(optimizer, saved.get(key, {}), resume_point, key)


def _load_moments(
    optimizer: Any, saved: Mapping[str, Any], resume_point: ResumePoint, key: str = "optimizer"
) -> None:
    """Load an optimizer's moments, with the settings it has now; nothing if they do not fit."""
    fingerprint = resume_point.snapshot.fingerprints.get(key) or {}
    current = optimizer.state_dict()
    sizes = [len(group["params"]) for group in current["param_groups"]]
    kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    fits = fingerprint.get("class") == kind and fingerprint.get("groups") == sizes
    # Moments belong to parameters by their index, which another model gives to other parameters.
    if fits and "model" not in resume_point.changed:
        optimizer.load_state_dict(
            {"state": saved["state"], "param_groups": current["param_groups"]}
        )
    else:
        log.warning("the optimizer starts without moments: those of the checkpoint do not fit it")
