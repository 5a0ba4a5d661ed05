"""`StopDiagnosis`: where the cause of a stop was, found in the stopped step, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import as_ids, resolve
from midstep.explore.diagnosis.changes import LAST_STEPS, Change, StepNumbers, what_changed
from midstep.explore.diagnosis.forward_trace import Origin
from midstep.explore.diagnosis.planes import make_plane
from midstep.explore.diagnosis.sample_inputs import BatchInputs, SampleInput, nonfinite_inputs
from midstep.session.diagnosis.cause_text import (
    MOST_NAMED,
    SampleNames,
    change_words,
    field_words,
    origin_row,
    origin_words,
    symptom,
)
from midstep.session.diagnosis.dead_units import DeadUnitCounter, has_relus
from midstep.session.diagnosis.held_step import HeldStep
from midstep.session.diagnosis.layer_rows import layer_rows
from midstep.session.diagnosis.rerun import Rerun, run_again
from midstep.session.diagnosis.step_samples import StepSamples, broken_argument
from midstep.session.diagnosis.weights import (
    BrokenWeights,
    ChosenWeights,
    SnapshotSource,
    broken_weights,
    choose_weights,
    norm_of,
)
from midstep.session.ranks import RankGroup

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.control.breakpoints.recent_steps import StepNote

DEAD_UNITS_LIMIT_S = 5.0
"""Seconds for the pass through a model whose stop is finite."""


class StopDiagnosis:
    """Collects what a stopped step still holds, then describes the cause. Used once.

    Args:
        controller: of the run.
        held: what the step was computed from.
        evidence: of the breakpoint; None after an error.
        has_failed: whether an error stopped the run inside a step.
    """

    def __init__(
        self,
        controller: DebugController,
        held: HeldStep,
        evidence: Mapping[str, Any] | None,
        *,
        has_failed: bool,
    ) -> None:
        self._controller, self._held, self._evidence = controller, held, evidence
        self._model = held.model
        failure = controller.status.failure or {}
        # Code that has raised would raise again.
        self._failed_outside = has_failed and not failure.get("in_model", False)
        # A step that raised is not counted.
        self.step = controller.boundary.finished_steps + int(has_failed)
        self.notes: list[str] = []
        self.rerun: Rerun | None = None
        self.weights: ChosenWeights | None = None
        self.broken_now = BrokenWeights()
        self.origin: Origin | None = None
        self.dead_counts: Mapping[str, tuple[int, int]] = {}
        """Dead units and all units by ReLU of a finite step, if no rule has measured them."""
        self.has_model = True
        """Whether the model can be read: not on one rank of several alone."""
        state = controller.get_state()
        self.loss: float | None = None if has_failed else state["loss"]
        self._reason: str | None = state["reason"]
        self.samples = self._collect_samples()
        self.inputs: BatchInputs = nonfinite_inputs(self.samples.batches)
        known = len(self.samples.names.ids or ())
        if known > self.inputs.samples > 0:
            self.notes.append(
                f"{self.inputs.samples:,} of the {known:,} samples of this step were held"
            )

    def _collect_samples(self) -> StepSamples:
        captured = self._controller.captures.batch_of(self.step - 1)
        batches: Sequence[Any] = self._held.batches
        if not batches and captured is not None:
            batches = [resolve(captured.batch)]
        ids = self._held.sample_ids
        if ids is None and captured is not None:
            ids = captured.sample_ids
        return StepSamples(
            batches=batches,
            names=SampleNames(ids=as_ids(ids)),
            calls=tuple(self._held.calls),
            losses=() if captured is None else captured.known_losses()[0],
            shares=None if captured is None else captured.known_shares(),
        )

    # -- collecting -------------------------------------------------------------------------------

    def look(self, snapshots: SnapshotSource | None, *, is_large: bool) -> None:
        """Find where the first value that is not finite appeared, if one did.

        Args:
            snapshots: weights from before the stop.
            is_large: whether dead units of a finite step are counted, too; it takes a pass.
        """
        group = RankGroup.find()
        if group is not None:
            # Reading a sharded weight, and running a parallel module, would wait for other ranks.
            self.has_model = False
            self.notes.append(
                f"This is {group.words}: the model was not examined, because the other ranks "
                "would have to take part"
            )
            if self.inputs.broken and self._is_nonfinite():
                self.origin = Origin(kind="input", name="")
            return
        self.broken_now = broken_weights(self._model.named_parameters())
        if not self._is_nonfinite():
            if is_large:
                self._count_dead_units(snapshots)
            return
        self._run_again(snapshots)
        if self.origin is None:
            self.origin = self._origin_outside()

    def _is_nonfinite(self) -> bool:
        """Whether anything about this stop is NaN or infinite."""
        evidence = self._evidence or {}
        values = (self.loss, evidence.get("value"))
        is_odd = any(isinstance(each, float) and not math.isfinite(each) for each in values)
        is_rule = evidence.get("rule") == "nonfinite_layer"
        return is_odd or is_rule or bool(self.broken_now.tensors) or self._failed_outside

    def _run_again(self, snapshots: SnapshotSource | None) -> None:
        if not self.samples.calls:
            self.notes.append(self._why_no_calls())
            return
        chosen, why_not = choose_weights(self._model, self.step, snapshots, self.broken_now)
        if chosen is None:
            self.notes.append(str(why_not))
            return
        if self._held.dropped:
            self.notes.append(
                f"The inputs of {self._held.dropped:,} earlier forward passes of this step were "
                "too large to hold"
            )
        if any(call.was_modified for call in self.samples.calls):
            self.notes.append(
                "An input was changed in place after the forward pass; the changed values were "
                "checked"
            )
        self.weights = chosen
        interrupted = self._controller.boundary
        self.rerun = run_again(
            self._model,
            self.samples.calls,
            chosen,
            interrupted=lambda: interrupted.is_stopping,
        )
        self.origin = self.rerun.trace.origin
        if self.rerun.problem is not None:
            self.notes.append(self.rerun.problem)

    def _count_dead_units(self, snapshots: SnapshotSource | None) -> None:
        notes = self._notes()
        is_measured = bool(notes) and bool(notes[-1].dead_shares)
        if is_measured or not self.samples.calls or not has_relus(self._model):
            return
        chosen, _ = choose_weights(self._model, self.step, snapshots, self.broken_now)
        if chosen is None:
            return
        counter, boundary = DeadUnitCounter(), self._controller.boundary
        run_again(
            self._model,
            self.samples.calls,
            chosen,
            interrupted=lambda: boundary.is_stopping,
            limit_s=DEAD_UNITS_LIMIT_S,
            observe=counter.observe,
        )
        self.dead_counts = counter.counts()

    def _why_no_calls(self) -> str:
        if self._held.is_on:
            return (
                "No forward pass of the declared model was seen in this step, so its modules were "
                "not run again: inputs, loss, gradients and parameters were checked"
            )
        return (
            "No breakpoint was set when this step began, so its modules were not run again: "
            "inputs, loss, gradients and parameters were checked"
        )

    def _origin_outside(self) -> Origin | None:
        """Where it appeared if all repeated modules are finite, or if none was repeated."""
        was_run = self.rerun is not None and self.rerun.passes > 0
        loss_is_odd = self.loss is not None and not math.isfinite(self.loss)
        if loss_is_odd and self.rerun is not None and self.rerun.trace.suspect is not None:
            return self.rerun.trace.suspect
        if self.inputs.broken and (not was_run or loss_is_odd):
            return Origin(kind="input", name="loss" if was_run else "")
        if loss_is_odd:
            is_known = was_run and self.weights is not None and self.weights.is_exact
            return Origin(kind="operation", name="loss") if is_known else None
        gradients = broken_weights(
            (name, value.grad)
            for name, value in self._model.named_parameters()
            if value.grad is not None
        )
        if gradients.tensors:
            # Backward runs from the loss to the inputs, so the last parameter comes first.
            return Origin(kind="gradient", name=gradients.tensors[-1])
        return None

    # -- samples ----------------------------------------------------------------------------------

    def _bad_positions(self) -> tuple[list[int], int]:
        """Positions of the samples at fault, and how many there are."""
        if self.inputs.broken:
            return list(self.inputs.positions), self.inputs.broken
        if self.rerun is not None and self.origin is not None:
            call = self.rerun.origin_call
            is_input = self.origin.kind == "input"
            tensor = broken_argument(call) if is_input else self.rerun.trace.first_output
            if self.origin.kind != "parameter" and (
                positions := self.samples.positions_in(tensor, call)
            ):
                return positions, len(positions)
        positions = self.samples.positions_of_broken_losses()
        return positions, len(positions)

    # -- describing -------------------------------------------------------------------------------

    def describe(self, *, is_large: bool) -> dict[str, Any]:
        """The diagnosis as JSON, bounded in size."""
        positions, total = self._bad_positions()
        changes = self._changes()
        trace = None if self.rerun is None else self.rerun.trace
        layers, pictures = [], None
        if is_large and self.has_model and self._is_nonfinite():
            layers = layer_rows(
                self._model,
                trace,
                origin=self.origin,
                input_share=self._input_share(),
                loss_is_finite=None if self.loss is None else math.isfinite(self.loss),
                saved=None if self.weights is None else self.weights.saved,
            )
            pictures = self._pictures(positions)
        ids = self.samples.names.ids
        return {
            "step": self.step,
            "title": symptom(self._evidence, self.loss, self._reason),
            "cause": self._cause(positions, total, changes),
            "origin": None
            if self.origin is None
            else {"kind": self.origin.kind, "name": self.origin.name},
            "samples": [ids[at] if ids is not None and at < len(ids) else at for at in positions],
            "has_ids": ids is not None,
            "positions": positions,
            "broken_samples": total,
            "batch_size": self.inputs.samples,
            "inputs": [self._describe_input(each) for each in self.inputs.described],
            "layers": layers,
            "weights_step": None if self.weights is None else self.weights.step,
            "weights_exact": self.weights is not None and self.weights.is_exact,
            "broken_weights": self.broken_now.values,
            "weights": self.broken_now.of_values,
            "changes": [_describe_change(each) for each in changes],
            "steps": self._shown_steps(),
            "pictures": pictures,
            "notes": self._all_notes(),
        }

    def _cause(self, positions: Sequence[int], total: int, changes: Sequence[Change]) -> str | None:
        if self.origin is None:
            cause = next((each for each in changes if each.is_cause), None)
            return None if cause is None else change_words(cause)
        names = self.samples.names
        first_module = None if self.rerun is None else self.rerun.trace.first_module
        source = None
        if self.origin.kind == "input" and total:
            whose = names.list(positions, total)
            what = "input" if total == 1 else "inputs"
            source = f"{what} of {whose}"
            if self.origin.name == "loss":
                field = field_words(self.inputs.described[0].field)
                return f"First non-finite: {field} of {whose} → loss"
        words = origin_words(self.origin, first_module, source)
        if self.origin.kind == "gradient" and self.loss is not None:  # and it is finite
            words += "; the forward pass is finite"
        is_of_few = total <= MOST_NAMED or self.origin.name != "loss"
        if total and is_of_few and self.origin.kind in ("module", "operation"):
            words += f", for {names.list(positions, total)}"
        return f"First non-finite: {words}"

    def _input_share(self) -> float | None:
        counts = self.inputs.counts
        return counts.share if counts.of else None

    def _describe_input(self, one: SampleInput) -> dict[str, Any]:
        ids = self.samples.names.ids
        at = one.position
        return {
            "position": at,
            "sample": ids[at] if ids is not None and at < len(ids) else None,
            "field": one.field,
            "bad": one.counts.bad,
            "of": one.counts.of,
            "what": one.counts.words,
            "where": one.where,
            "low": one.low,
            "high": one.high,
        }

    def _pictures(self, positions: Sequence[int]) -> dict[str, Any] | None:
        """The first sample at fault, and its row of the first bad output."""
        if not positions:
            return None
        at = positions[0]
        sample = next((each.value for each in self.inputs.described if each.position == at), None)
        output = None
        trace = None if self.rerun is None else self.rerun.trace
        if self.rerun is not None and trace is not None:
            output = self.samples.row_of(trace.first_output, self.rerun.origin_call, at)
        planes = {
            "input": None if sample is None else make_plane(sample, colours=True),
            "output": None if output is None else make_plane(output),
        }
        if planes["input"] is None and planes["output"] is None:
            return None
        return {
            **planes,
            "position": at,
            "output_of": None if trace is None else trace.first_module,
        }

    def _shown_steps(self) -> list[int]:
        return [each.step for each in self._notes()[-LAST_STEPS:]]

    def _notes(self) -> list[StepNote]:
        recent = self._controller.breakpoints.recent.notes()
        return [each for each in recent if each.step <= self.step]

    def _changes(self) -> list[Change]:
        steps = [_numbers(each) for each in self._notes()]
        if steps and steps[-1].grad_norm is None and steps[-1].step == self.step:
            # Many loops leave the gradients until the next step.
            steps[-1] = replace(steps[-1], grad_norm=self._present_gradient_norm())
        if steps and self.dead_counts and not steps[-1].dead:
            shares = {name: dead / units for name, (dead, units) in self.dead_counts.items()}
            steps[-1] = replace(steps[-1], dead=shares, dead_counts=self.dead_counts)
        is_input = self.origin is not None and self.origin.kind == "input"
        return what_changed(
            steps,
            broken_inputs=self.inputs.counts.bad if self.inputs.samples else None,
            share=self.samples.largest_share(),
            proven="inputs" if is_input and self.inputs.broken else None,
            origin=None if self.origin is None else origin_row(self.origin),
            older_norms=self._controller.breakpoints.recent.older_norms(),
        )

    def _present_gradient_norm(self) -> float | None:
        if not self.has_model:
            return None
        return norm_of(each.grad for each in self._model.parameters() if each.grad is not None)

    def _all_notes(self) -> list[str]:
        notes = [f"{each[:1].upper()}{each[1:]}." for each in self.notes]
        weights, rerun = self.weights, self.rerun
        if rerun is not None and weights is not None and rerun.passes:
            if weights.note is not None:
                notes.insert(0, f"The modules were run again {weights.note}.")
            if self.origin is None and rerun.problem is None:
                notes.append(_finite_words(weights, self.step))
        broken = self.broken_now
        if broken.values:
            every = "all" if broken.values == broken.of_values else f"{broken.values:,} of"
            notes.append(f"After this step {every} {broken.of_values:,} weights are not finite.")
        return notes


def _finite_words(weights: ChosenWeights, step: int) -> str:
    """What follows if every module is finite when it is run again."""
    words = "Run again, every module gives finite values"
    if weights.step < step - 1:
        return (
            f"{words}: what broke is the loss, or the weights between steps {weights.step:,} and "
            f"{step:,}."
        )
    return f"{words}."


def _numbers(note: StepNote) -> StepNumbers:
    """A note as floats; on a GPU this waits for the device, which the parked loop may."""
    names = [name for name in note.scalars if name == "lr" or name.startswith("lr.")]
    rates = {name: note.number(name) for name in names}
    return StepNumbers(
        step=note.step,
        rates={name: rate for name, rate in rates.items() if rate is not None},
        grad_norm=note.measured_norm(),
        samples=note.samples,
        dead=note.dead_shares,
        dead_counts=note.dead_counts,
    )


def _describe_change(change: Change) -> dict[str, Any]:
    return {
        "key": change.key,
        "what": change.what,
        "before": change.before,
        "after": change.after,
        "line": list(change.line),
        "step": change.step,
        "reading": change.reading,
        "is_cause": change.is_cause,
    }
