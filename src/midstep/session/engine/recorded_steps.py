"""What the facts hold of the steps after a checkpoint: a resume repeats them."""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core import strict_json
from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.facts.format.paths import list_steps_files
from midstep.facts.format.step_frames import IDS_CHECKSUM, WEIGHTS_CHECKSUM
from midstep.facts.read.step_columns import RowGroup, StepsReader
from midstep.session.rewind.repeated_steps import NO_RECORD, Circumstances
from midstep.session.run_header import script_digest, thread_count, versions, without_secrets
from midstep.session.state.training_parts import clock_state
from midstep.session.state.training_state import StepMark

if TYPE_CHECKING:
    from midstep.session.state.snapshot import Snapshot

MOST_ROWS = 1 << 16
"""Steps after the checkpoint that are compared at most."""
NUMERIC_SETTINGS = (
    "accumulate_steps",
    "amp",
    "device",
    "grad_clip_norm",
    "loss_fn",
    "scaler",
    "scheduler",
    "scheduler_interval",
    "workers",
)
"""Settings in the header that change what a step computes, or what its loader draws."""

INCOMPLETE = "the record after the checkpoint has no complete step"
_SEQ = "seq of the row"
_FIELDS = {"ids": IDS_CHECKSUM, "lr": "lr", "loss": "loss", "weights": WEIGHTS_CHECKSUM}


@dataclass(frozen=True, kw_only=True)
class RecordedSteps:
    """The recorded steps after a checkpoint."""

    marks: Mapping[int, StepMark] = field(default_factory=dict)
    reason: str
    """Why there are no marks, or none after the last of them."""
    header: Mapping[str, Any] = field(default_factory=dict)
    """The header of the attempt that made these steps."""
    step_time_s: float | None = None
    """How long the last recorded step took."""


def read_recorded_steps(
    run_dir: Path,
    snapshot: Snapshot,
    settings: Mapping[str, Any],
    *,
    attempt: int,
    given: Mapping[str, Any],
) -> RecordedSteps:
    """Read the steps that an earlier attempt made after `snapshot`, up to the first change.

    Args:
        run_dir: the run directory.
        snapshot: what this attempt continues from.
        settings: those of this attempt, as in the header.
        attempt: this attempt; only earlier ones are read.
        given: the settings that the user gave to this attempt.
    """
    marks: dict[int, StepMark] = {}
    made_in, step_time_s = 0, None
    # The newest attempt that went further counts alone: settings may have changed between two.
    for number, path in sorted(list_steps_files(run_dir, 0), reverse=True):
        if number >= attempt:
            continue
        values, time_s = _read_rows(path, snapshot)
        step_time_s = time_s if step_time_s is None else step_time_s
        if values:
            # A step that raised has no row of its own, only what the user's code had logged.
            rows = {step: each for step, each in values.items() if IDS_CHECKSUM in each}
            marks = {step: _mark(each) for step, each in rows.items()}
            made_in = number
            break
    if not marks:
        return RecordedSteps(step_time_s=step_time_s, reason=INCOMPLETE if made_in else NO_RECORD)
    events = FactsReader(run_dir).events()
    header = _header(events, made_in)
    config = header.get("config") or {}
    if changed := _changed_settings(config, settings) or _changed_given(config, given):
        return RecordedSteps(reason=changed, header=header, step_time_s=step_time_s)
    limit, reason = _first_change(events, made_in, snapshot)
    kept = {step: mark for step, mark in marks.items() if limit is None or step <= limit}
    return RecordedSteps(
        marks=kept, header=header, step_time_s=step_time_s, reason=reason or NO_RECORD
    )


def _read_rows(path: Path, snapshot: Snapshot) -> tuple[dict[int, dict[str, float]], float | None]:
    """Values by step of the rows after the snapshot, and the last time of a step."""
    values: dict[int, dict[str, float]] = {}
    step_time_s = None
    for group in StepsReader(path).groups():
        if "step_time_s" in group.names:
            step_time_s = float(group.rows["values"][-1, group.names.index("step_time_s")])
        names = [name for name in _FIELDS.values() if name in group.names]
        if names:
            _add_rows(group, names, snapshot, values)
    return values, step_time_s


def _add_rows(
    group: RowGroup,
    names: Sequence[str],
    snapshot: Snapshot,
    values: dict[int, dict[str, float]],
) -> None:
    rows, first = group.rows, snapshot.step
    is_after = (rows["step"] > first) & (rows["step"] <= first + MOST_ROWS)
    chosen = rows[is_after & (rows["timeline"] == snapshot.timeline)]
    columns = [group.names.index(name) for name in names]
    is_row_of_step = IDS_CHECKSUM in names
    steps, seqs = chosen["step"].tolist(), chosen["seq"].tolist()
    for step, seq, row in zip(steps, seqs, chosen["values"][:, columns], strict=True):
        known = values.setdefault(step, {})
        read = dict(zip(names, row.tolist(), strict=True))
        # The first row with ids is the step's own. Others may be of a step that raised, whose
        # values are recorded under the step before, or of a loss that was logged between epochs.
        if is_row_of_step and seq < known.get(_SEQ, math.inf):
            values[step] = {**known, **read, _SEQ: seq}
        else:
            values[step] = {**read, **known}


def _mark(values: Mapping[str, float]) -> StepMark:
    """The mark of a recorded step."""
    fields: dict[str, Any] = {name: values.get(column) for name, column in _FIELDS.items()}
    for name in ("ids", "weights"):
        if fields[name] is not None:
            fields[name] = int(fields[name]) if np.isfinite(fields[name]) else None
    return StepMark(**fields)


def _header(events: Iterable[Mapping[str, Any]], attempt: int) -> Mapping[str, Any]:
    starts = (e for e in events if e["moment"] == Moment.START and e.get("attempt") == attempt)
    return next(starts, {})


def _changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The settings that changed, in words; None if they are the same."""
    # Under a seeded order the number of workers changes nothing.
    is_seeded = now.get("data_order_policy", "user") != "user"
    changed = [
        f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
        for name in NUMERIC_SETTINGS
        if name in before and name in now and before[name] != now[name]
        if not (is_seeded and name == "workers")
    ]
    return ", ".join(changed) or None


def _changed_given(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The settings of the user's that changed, in words; None if they are the same."""
    # Those with a name that midstep uses itself are kept apart, see `header_config`.
    known = {**before, **before.get("given", {})}
    changed = [
        f"{name} was {known.get(name)!r}, is {value!r}"
        for name, value in strict_json.loads(strict_json.dumps(now)).items()  # as in a header
        if known.get(name) != value
    ]
    return f"config changed: {', '.join(changed)}" if changed else None


def _first_change(
    events: Iterable[Mapping[str, Any]], attempt: int, snapshot: Snapshot
) -> tuple[int | None, str | None]:
    """The step after which the record was changed by a command, and by what; None if never."""
    changes = [
        event
        for event in events
        if event.get("kind") == "hparams"
        and event.get("attempt") == attempt
        and event["timeline"] == snapshot.timeline
        and event.get("step", -1) >= snapshot.step
        and not _is_in_snapshot(event, snapshot)
    ]
    if not changes:
        return None, None
    step = min(int(event["step"]) for event in changes)
    return step, f"hyperparameters were changed at step {step:,}"


def _is_in_snapshot(event: Mapping[str, Any], snapshot: Snapshot) -> bool:
    """Whether the snapshot was taken after this change of hyperparameters, at the same step."""
    if event["step"] != snapshot.step:
        return False
    saved = {}
    for name in event.get("new", {}):
        setting, _, other = name.partition(".")
        states = snapshot.states
        state = states.get(f"optimizer.{other}", {}) if other else clock_state(states)
        saved[name] = [_plain(group.get(setting)) for group in state.get("param_groups", ())]
    return saved == {name: list(map(_plain, each)) for name, each in event.get("new", {}).items()}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def circumstances(header: Mapping[str, Any] | None, device: str | None) -> Circumstances:
    """What is different now from the process of that header; of this process if it is None.

    Args:
        header: of the attempt that made the recorded steps.
        device: the type of the device that trains.
    """
    import torch

    explanations = []
    if device not in (None, "cpu") and not torch.are_deterministic_algorithms_enabled():
        explanations.append(f"kernels of {device} are not deterministic unless you ask for that")
    if header is None:
        return Circumstances(explanations=explanations)
    pairs = {
        "threads": (header.get("threads"), thread_count()),
        "torch": ((header.get("versions") or {}).get("torch"), versions()["torch"]),
        "host": (header.get("host"), socket.gethostname()),
    }
    explanations += [
        f"{name} was {before}, is {now}"
        for name, (before, now) in pairs.items()
        if before is not None and before != now
    ]
    edits = []
    if header.get("script") is not None and header["script"] != script_digest():
        edits.append("the script was edited since")
    argv = header.get("argv")
    if argv is not None and _program(argv) != _program(without_secrets(sys.orig_argv)):
        edits.append("the command line is another one")
    return Circumstances(explanations=explanations, edits=edits)


def _program(argv: Sequence[str]) -> list[str]:
    """A command line without the path of the interpreter."""
    return [Path(argv[0]).name, *argv[1:]] if argv else []
