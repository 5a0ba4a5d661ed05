"""The breakpoints of a run: changed from any thread, checked by the training thread.

A breakpoint is a condition with a switch and a count of hits; a hit leaves evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from midstep.control.breakpoints.conditions import Condition, Hit, LossZ, StepView, make_condition
from midstep.control.breakpoints.layer_report import LayerReport, Measure
from midstep.control.breakpoints.recent_steps import RecentSteps
from midstep.control.breakpoints.rolling_statistics import UsualBatch
from midstep.control.breakpoints.rule import Rule
from midstep.control.capture.captured_data import CapturedBatch, as_float, as_ids, is_on_device
from midstep.control.capture.sample_results import outliers
from midstep.control.command_record import Command
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState


MAX_BREAKPOINTS = 200
MAX_KEPT_VALUES = 1_000_000
"""Losses and gradients that the windows of all breakpoints hold: about 32 MB."""
MAX_HIT_STEPS = 100
MAX_SAMPLES = 128
"""Limit of sample ids in the evidence, which goes to the facts and to every viewer."""
Action = Literal["pause", "mark"]
"""Pause the run, or only record a mark in its facts and on its charts."""


@dataclass(kw_only=True)
class Breakpoint:
    """A condition that pauses the run or marks it."""

    id: int
    condition: Condition
    enabled: bool = True
    action: Action = "pause"
    hits: int = 0
    hit_steps: list[int] = field(default_factory=list)
    """Steps of the last 100 hits."""
    on_device: bool = False
    """Whether it reads a scalar that was on a GPU: then every step waits for the device once."""
    unseen_scalars: frozenset[str] = frozenset()
    """Scalars that it reads and that no step has logged so far."""
    was_checked: bool = False
    """Whether it was checked at least once."""
    condition_holds: bool = False
    """Whether its condition held after the last step; a mark is recorded when it begins to hold."""

    @property
    def kind(self) -> str:
        """Kind of the condition."""
        return self.condition.kind

    @property
    def words(self) -> str:
        """The condition in words."""
        return self.condition.words

    def count_hit(self, step: int) -> None:
        """Count a hit at `step`."""
        self.hits += 1
        self.hit_steps = [*self.hit_steps[-(MAX_HIT_STEPS - 1) :], step]

    def describe(self) -> dict[str, Any]:
        """The breakpoint as JSON: condition, words, counts, and the window of `loss_z`."""
        window = self.condition.spread if isinstance(self.condition, LossZ) else None
        return {
            "id": self.id,
            "condition": self.condition.parameters(),
            "words": self.words,
            "enabled": self.enabled,
            "action": self.action,
            "hits": self.hits,
            "hit_steps": list(self.hit_steps),
            "window": window.window if window is not None else None,
            # An empty window is false: it has neither mean nor deviation.
            "mean": window.mean if window else None,
            "std": window.std if window else None,
            "costs_sync": self.on_device,
            "cost_s": self.condition.cost_s,
            "missing": self._missing() if self.was_checked else [],
        }

    def _missing(self) -> list[str]:
        lacks = self.condition.missing_input
        return [*sorted(self.unseen_scalars), *([] if lacks is None else [lacks])]


class Breakpoints:
    """Adds, switches, removes and checks breakpoints; hooks report here what rules need.

    `armed`, `scalar_names` and `_needs_sample_ids` are replaced as a whole under the lock, so that
    the training thread reads them without it.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._usual_batch = UsualBatch()
        self._by_id: dict[int, Breakpoint] = {}
        self._next_id = 1
        self.armed: tuple[Breakpoint, ...] = ()
        self.can_stop = False
        """Whether an armed breakpoint pauses the run; then a step is kept for its diagnosis."""
        self.will_pause = False
        """Whether the step that was checked last hit one that pauses, until the gate is closed."""
        self.recent = RecentSteps()
        """The last steps in which one was armed."""
        self.scalar_names: frozenset[str] = frozenset()
        """Scalars that the armed breakpoints read."""
        self._needs_sample_ids = False

    # -- any thread's side ------------------------------------------------------------------------

    def add(
        self, kind: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Add a breakpoint; see `DebugController.add_breakpoint`."""
        condition = make_condition(kind, settings)  # checked before the lock is taken
        _check_action(action)
        with self._state.changing():
            self._check_room(condition)
            added = Breakpoint(
                id=self._next_id,
                condition=condition,
                enabled=enabled,
                action=action,
                unseen_scalars=condition.scalar_names,
            )
            # Ids are never used twice: a late `remove` of a client must not hit another breakpoint.
            self._next_id += 1
            self._by_id[added.id] = added
            self._rearm()
            return added

    def _check_room(self, condition: Condition) -> None:
        """Refuse what would fill the memory of the training process, or slow every step down."""
        if len(self._by_id) >= MAX_BREAKPOINTS:
            raise ConfigError(
                f"a run can have {MAX_BREAKPOINTS} breakpoints; remove one before you add another"
            )
        kept = sum(each.condition.kept_values for each in self._by_id.values())
        if kept + condition.kept_values > MAX_KEPT_VALUES:
            raise ConfigError(
                f"the windows of all breakpoints can hold {MAX_KEPT_VALUES:,} values together, and "
                f"{kept:,} are taken; choose a window of at most {MAX_KEPT_VALUES - kept:,}"
            )

    def add_rule(
        self, rule: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Add a ready-made breakpoint.

        Args:
            rule: a name of `midstep.control.breakpoints.rule_catalog.RULES`.
            enabled: whether the rule is checked from now on.
            action: `pause` stops the run, `mark` only records the hit.
            **settings: limit, low, window, every, layers, metric, as far as the rule takes them.

        >>> from midstep.control import DebugController
        >>> DebugController().breakpoints.add_rule("dead_relus", action="mark").condition.every
        10
        """
        return self.add(Rule.kind, enabled=enabled, action=action, rule=rule, **settings)

    def remove(self, breakpoint_id: int) -> Breakpoint:
        """Remove a breakpoint and return it."""
        with self._state.changing():
            removed = self._find(breakpoint_id)
            del self._by_id[breakpoint_id]
            self._rearm()
            return removed

    def enable(self, breakpoint_id: int, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        with self._state.changing():
            changed = self._find(breakpoint_id)
            changed.enabled = enabled
            self._rearm()
            return changed

    def set_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Let a breakpoint stop the run (`pause`), or only record its hits (`mark`)."""
        with self._state.changing():
            changed = self._find(breakpoint_id)
            _check_action(action)
            changed.action = action
            self._rearm()
            return changed

    def list_all(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        with self._state.lock:
            return list(self._by_id.values())

    def _find(self, breakpoint_id: int) -> Breakpoint:
        try:
            return self._by_id[breakpoint_id]
        except KeyError:
            known = ", ".join(map(str, self._by_id)) or "none"
            raise ConfigError(f"no breakpoint {breakpoint_id}; there are {known}") from None

    def _rearm(self) -> None:
        # After every change, so that a step tests three attributes and no breakpoint.
        self.armed = tuple(each for each in self._by_id.values() if each.enabled)
        self.can_stop = any(each.action == "pause" for each in self.armed)
        self.scalar_names = frozenset().union(*(each.condition.scalar_names for each in self.armed))
        self._needs_sample_ids = any(each.kind == "sample" for each in self.armed)

    # -- the training thread's side ---------------------------------------------------------------

    @property
    def measures_due(self) -> frozenset[Measure]:
        """What rules need measured inside the model in the step in progress."""
        if not self.armed:  # nearly always, and called several times a step
            return frozenset()
        step = self._state.step_index + 1
        return frozenset().union(*(each.condition.measures_at(step) for each in self.armed))

    @property
    def may_stop_step(self) -> bool:
        """Whether a breakpoint may pause the run after the step in progress."""
        step = self._state.step_index + 1
        return any(each.action == "pause" and each.condition.is_due(step) for each in self.armed)

    def report_layers(self, report: LayerReport) -> None:
        """Give the rules what was measured inside the model in this step."""
        self._state.layer_report = report

    def check_step(self) -> list[tuple[Breakpoint, Hit]]:
        """Check every armed condition against the step that has just ended.

        Returns what to record: marks whose condition begins to hold, then the first one that
        pauses the run.
        """
        state = self._state
        if self.can_stop:
            scalars, report = state.step_scalars, state.layer_report
            self.recent.note(
                state.finished_steps, scalars, samples=state.step_samples, report=report
            )
        # Every condition is checked in every step, also after a hit: windows need all losses.
        return self._check(self.armed, self._step_view())

    def check_between(self, scalars: Mapping[str, Any]) -> list[tuple[Breakpoint, Hit]]:
        """Check the conditions on `scalars`, logged where no step has ended; as `check_step`."""
        names = scalars.keys() | self._state.scalars_outside_step.keys()
        armed = [each for each in self.armed if each.condition.scalar_names & names]
        return self._check(armed, self._step_view(scalars)) if armed else []

    def _check(self, armed: Sequence[Breakpoint], view: StepView) -> list[tuple[Breakpoint, Hit]]:
        hits = [(each, hit) for each in armed if (hit := each.condition.check(view))]
        marks = [pair for pair in hits if pair[0].action == "mark" and not pair[0].condition_holds]
        stops = [pair for pair in hits if pair[0].action == "pause"]
        # Set before the batch is copied and the evidence is made: both read the losses of samples,
        # which are refused in a running step when they would cost more than 2 % of the time.
        self.will_pause = bool(stops)
        holding = {each.id for each, _ in hits}
        for each, _ in hits:
            each.count_hit(view.step)
        for each in armed:
            each.was_checked = True
            each.condition_holds = each.id in holding
            if each.unseen_scalars:
                each.unseen_scalars -= view.scalars.keys()
            if view.on_device:
                each.on_device |= bool(each.condition.scalar_names & view.on_device)
        return marks + stops[:1]

    def _step_view(self, scalars: Mapping[str, Any] | None = None) -> StepView:
        """This step's scalars as floats, as far as an armed condition reads them.

        On a GPU every scalar that is read waits for the device, so no others are converted.
        """
        state = self._state
        known = {
            **state.described_fields,
            **state.scalars_outside_step,
            **(state.step_scalars if scalars is None else scalars),
            "step": state.finished_steps,
        }
        state.scalars_outside_step = {}  # conditions see a validation once, not until the next one
        read = {name: known[name] for name in self.scalar_names & known.keys()}
        floats = {name: as_float(value) for name, value in read.items()}
        batch = state.captures.batch_of(state.finished_steps - 1)
        # Between two steps no batch was trained on.
        samples = state.step_samples if scalars is None else 0
        return StepView(
            step=state.finished_steps,
            scalars={name: value for name, value in floats.items() if value is not None},
            sample_ids=as_ids(batch.sample_ids) if batch and self._needs_sample_ids else None,
            on_device=frozenset(name for name, value in read.items() if is_on_device(value)),
            layers=state.layer_report,
            is_small_batch=self._usual_batch.is_smaller(samples),
        )

    def record_hits(self, hits: list[tuple[Breakpoint, Hit]]) -> None:
        """Send the evidence of every hit to the sinks, and pause the run if one stops it."""
        step = self._state.finished_steps
        batch = self._state.captures.batch_of(step - 1)
        for breakpoint_, hit in hits:
            evidence = _make_evidence(breakpoint_, hit, step=step, batch=batch)
            if breakpoint_.action == "mark":
                self._state.send_intervention(kind="mark", who="breakpoint", **evidence)
                self._state.notify()
            else:
                self._pause_at(breakpoint_, evidence)

    def _pause_at(self, stopper: Breakpoint, evidence: dict[str, Any]) -> None:
        """Close the gate, and record that as a `pause` command of the breakpoint."""
        state = self._state
        pause = Command(name="pause", payload={"breakpoint": stopper.id}, who="breakpoint")
        with state.lock:
            state.completed_commands += state.gate.pause()
            state.queue.gate_closed()
            self.will_pause = False
            # The last three come when the cause was looked for; see `RunStatus.diagnosed`.
            state.breakpoint_evidence = {**evidence, "positions": [], "title": None, "cause": None}
            # A record like that of any other pause, so that the command log explains the stop.
            record = state.queue.open_record(pause)
        state.send_intervention(kind="breakpoint", who="breakpoint", **evidence)
        state.finish_command(record, "done", result={"breakpoint": stopper.id})


def _check_action(action: str) -> None:
    if action not in get_args(Action):
        raise ConfigError(f"action must be pause or mark, got {action!r}")


def _make_evidence(
    breakpoint_: Breakpoint, hit: Hit, *, step: int, batch: CapturedBatch | None
) -> dict[str, Any]:
    """The evidence of a hit, as the page shows it: value, limit, samples, explanation."""
    samples, sample_note = _responsible_samples(hit, batch)
    notes = [note for note in (hit.note, sample_note) if note is not None]
    return {
        "breakpoint": breakpoint_.id,
        "condition": breakpoint_.words,
        "value": hit.value,
        "limit": hit.limit,
        "step": step,
        "samples": list(samples[:MAX_SAMPLES]),
        "note": "; ".join(notes) or None,
        "layer": hit.layer,
        "action": breakpoint_.action,
        **breakpoint_.condition.explain(),
    }


def _responsible_samples(hit: Hit, batch: CapturedBatch | None) -> tuple[Sequence[int], str | None]:
    """Ids of the samples that cause the hit, and a note about their share of the loss."""
    if hit.samples:
        return hit.samples, None
    losses, fact = ([], None) if batch is None else batch.known_losses()
    if batch is None or not losses:
        return (), None
    # Without ids, or with ids that do not match the losses, samples are named by position.
    known = as_ids(batch.sample_ids)
    ids = known if known is not None and len(known) == len(losses) else range(len(losses))
    # First: one NaN makes mean and standard deviation of all losses NaN.
    broken = [i for i, value in enumerate(losses) if not math.isfinite(value)]
    responsible = broken or ([] if fact is None else outliers(losses))
    return [ids[i] for i in responsible], fact
