"""Resuming several ranks: the newest step that all of them have, with equal replicated weights."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.session.checkpoint.checkpoint_folders import CheckpointName
from midstep.session.checkpoint.checkpoint_store import CheckpointError, LoadedCheckpoint
from midstep.session.checkpoint.fingerprint import hash_value

if TYPE_CHECKING:
    from torch import nn

    from midstep.session.checkpoint.checkpoint_store import CheckpointStore
    from midstep.session.engine.recorded_history import RecordedHistory
    from midstep.session.ranks import RankMeeting
    from midstep.session.state.snapshot import Snapshot

_OFFER = "offer a checkpoint to resume from"


def decline_resume(meeting: RankMeeting) -> None:
    """Tell the other ranks that this one does not resume. Does not wait for them."""
    meeting.publish("offer", {"resume": "never"})


def agree_on_checkpoint(
    meeting: RankMeeting, store: CheckpointStore, history: RecordedHistory, resume: str
) -> LoadedCheckpoint | None:
    """The newest checkpoint whose step every rank has in a valid one; None if no rank has any.

    Args:
        meeting: of the ranks.
        store: the checkpoints of this rank.
        history: of this rank's run.
        resume: `auto` or `must`.

    Raises:
        ConfigError: a rank is not attached or does not resume, or there is no common step.
    """
    names = [name for name in store.names() if history.has(name)]
    steps = [[name.timeline, name.step] for name in names]
    meeting.publish("offer", {"resume": resume, "run_id": history.run_id, "steps": steps})
    offers = meeting.read_all("offer", _OFFER)
    for rank, offer in enumerate(offers):
        if offer["resume"] == "never":
            raise ConfigError(
                f'rank {rank} has resume="never" and begins at step 0, but this is rank '
                f"{meeting.group.rank} with resume={resume!r}; give every rank the same setting"
            )
    if not any(offer["steps"] for offer in offers):
        return None
    problems: list[str] = []
    for timeline, step in _common_steps(offers):
        name = next(each for each in names if [each.timeline, each.step] == [timeline, step])
        loaded = _try_to_load(store, name, history, offers, problems)
        topic = f"valid/{timeline}.{step}"  # not the name, which has the number of the copy
        meeting.publish(topic, loaded is not None)
        verdicts = meeting.read_all(topic, f"read its checkpoint of step {step}")
        if loaded is not None and all(verdicts):
            return loaded
        if not all(verdicts):
            rank = verdicts.index(False)
            problems.append(f"checkpoint of step {step}: that of rank {rank} is not usable")
    raise ConfigError(_no_common_step(offers, problems))


def _common_steps(offers: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Timeline and step of the checkpoints that every rank has, newest first."""
    common = set.intersection(*({tuple(each) for each in offer["steps"]} for offer in offers))
    return sorted(common, reverse=True)


def _try_to_load(
    store: CheckpointStore,
    name: CheckpointName,
    history: RecordedHistory,
    offers: Sequence[Mapping[str, Any]],
    problems: list[str],
) -> LoadedCheckpoint | None:
    try:
        snapshot = store.read(name, history.refuse)
    except CheckpointError as error:
        problems.append(str(error))
        return None
    if problem := _other_world(snapshot, [offer["run_id"] for offer in offers]):
        problems.append(problem)
        return None
    return LoadedCheckpoint(snapshot=snapshot, path=store.path(name), problems=problems)


def _other_world(snapshot: Snapshot, run_ids: list[str]) -> str | None:
    """Why a checkpoint was not taken by these ranks together; None if it was."""
    world = snapshot.origin.get("world")
    if world is None:
        return None  # an older checkpoint, or one of a training without a group
    if world["runs"] is None:
        return (
            f"checkpoint of step {snapshot.step}: it was taken when only some of the "
            f"{world['size']} ranks had a run, so nothing says that the others were at this step"
        )
    if list(world["runs"]) != run_ids:
        return (
            f"checkpoint of step {snapshot.step}: it was taken together with the runs "
            f"{', '.join(world['runs'])}, but the ranks have {', '.join(map(str, run_ids))}"
        )
    return None


def _no_common_step(offers: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> str:
    lists = "; ".join(
        f"rank {rank} has {', '.join(str(step) for _, step in offer['steps'][:5]) or 'none'}"
        for rank, offer in enumerate(offers)
    )
    reasons = f" ({'; '.join(problems)})" if problems else ""
    return (
        f"the ranks have no valid checkpoint of the same step: {lists}{reasons}. Copy the missing "
        "checkpoints back, or begin with another run_name on every rank"
    )


def compare_weights(meeting: RankMeeting, model: nn.Module, step: int) -> None:
    """Check that replicated weights are equal on all ranks after a restore.

    Weights are replicated under `DistributedDataParallel`. Other models may differ between ranks.

    Raises:
        ConfigError: they differ.
    """
    parameters = _replicated_parameters(model)
    meeting.publish("weights", None if parameters is None else hash_value(parameters))
    hashes = meeting.read_all("weights", f"restore its checkpoint of step {step}")
    if None in hashes or len(set(hashes)) == 1:
        return
    odd = [rank for rank, each in enumerate(hashes) if each != hashes[0]]
    raise ConfigError(
        f"the weights of step {step} differ between rank 0 and rank {odd[0]}, although "
        "DistributedDataParallel keeps them equal; resume from an earlier step: remove this "
        "checkpoint on every rank"
    )


def _replicated_parameters(model: nn.Module) -> dict[str, Any] | None:
    """The parameters that DDP keeps equal, by name; None if the model is not under DDP."""
    from torch.nn.parallel import DistributedDataParallel

    wrappers = [each for each in model.modules() if isinstance(each, DistributedDataParallel)]
    if not wrappers:
        # The user may have given the inner model. DDP leaves no mark on it, so its wrapper is
        # looked for among all objects; by `type`, because proxies lie about their class.
        wrappers = [
            each
            for each in gc.get_objects()
            if issubclass(type(each), DistributedDataParallel) and each.module is model
        ]
    if not wrappers:
        return None
    return {
        f"{index}.{name}": parameter
        for index, wrapper in enumerate(wrappers)
        for name, parameter in wrapper.module.named_parameters()
        if name not in wrapper.parameters_to_ignore
    }
