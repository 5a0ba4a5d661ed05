"""Compares repeated steps with what was recorded of them the first time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from midstep.control.capture.captured_data import as_float

if TYPE_CHECKING:
    from midstep.session.state.training_state import StepMark

log = logging.getLogger("midstep.session")
Verdict = Literal["exact", "repeatable", "moved", "differs", "close"]
CLOSE = 1e-3
"""Relative difference of the loss that other kernels, threads or versions of torch explain."""
CLOSE_AFTER_STEP = 1e-2
"""The same after weights that differ: a step magnifies a rounding, as Adam small gradients."""
IN_NO_STATE = "something that is in no state has moved"
UNTIL_RESET = "not exact until the next reset of the environment"
NO_RECORD = "the record ends at the checkpoint"
NOTHING_REPEATED = "nothing had to be repeated: a snapshot of that very step was restored"


class _Difference(NamedTuple):
    """A difference that is explained, so it is not a fault."""

    text: str
    step: int
    recorded: float | None
    repeated: float | None
    what: str


@dataclass(frozen=True, kw_only=True)
class StepComparison:
    """How the repeated steps came out."""

    cause: str
    """Why steps were repeated: `resume` or `back`."""
    verdict: Verdict | None
    """`exact`: all compared bits are equal to the record. `repeatable`: there is no record, and a
    step that was made twice came out alike. `moved`: ids or learning rate differ. `differs`: the
    loss or the weights differ. `close`: they differ, and the circumstances explain it, or only the
    logged number does, or it is unknown whether the weights differ, because only some steps log a
    loss. None: nothing was compared."""
    text: str
    steps: int = 0
    """How many steps were compared."""
    compared: Mapping[str, int] = field(default_factory=dict)
    """How many values of each kind were compared: ids, lr, loss, weights."""
    step: int | None = None
    """The first step that differs."""
    what: str | None = None
    """What differs there: batch ids, lr, loss or weights."""
    recorded: float | None = None
    repeated: float | None = None

    @property
    def exact(self) -> bool | None:
        """True or False if that is known; None for `close` and `repeatable`, and for no verdict."""
        return {"exact": True, "moved": False, "differs": False}.get(self.verdict or "")

    def describe(self) -> dict[str, Any]:
        """All fields, for the facts."""
        return {"exact": self.exact, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What else is different between the record and now."""

    explanations: Sequence[str] = ()
    """What explains a small difference: other kernels, threads, torch or host, in words."""
    edits: Sequence[str] = ()
    """What the user changed and what may explain any loss or learning rate, in words."""
    rate_follows_loss: bool = False
    """Whether another loss may lead to another learning rate, as with ReduceLROnPlateau."""
    unsaved: Sequence[str] = ()
    """What the state does not have although the user declared it, such as a simulator, in words."""


class RepeatedSteps:
    """Compares repeated steps, one by one, until one differs or the record ends.

    A loss that differs is only called a difference if the weights differ too: the user may log a
    mean over steps, which starts from zero in another process. Where no weights can tell, a loss
    is compared as it is, unless a step before it lacks a loss: then it may be such a mean.
    After a difference that is explained, ids and learning rate are compared further, since nothing
    explains those.

    Args:
        expected: marks of the steps as they were recorded, by step.
        cause: why steps are repeated: `resume` or `back`.
        on_result: called once, with the result.
        circumstances: what else is different.
        is_recorded: whether `expected` are records of an earlier attempt. Otherwise they are of
            this attempt, and equal steps prove only that they can be repeated.

    >>> from midstep.session.state.training_state import StepMark
    >>> repeated = RepeatedSteps({1: StepMark(7, 0.1, 2.0)}, cause="back")
    >>> repeated.compare(1, StepMark(7, 0.1, 2.0))
    >>> repeated.answer(1)["text"]
    'exact over 1 repeated step: ids 1, lr 1, loss 1'
    """

    def __init__(
        self,
        expected: Mapping[int, StepMark],
        *,
        cause: str,
        on_result: Callable[[StepComparison], object] = lambda _result: None,
        circumstances: Circumstances | None = None,
        is_recorded: bool = True,
    ) -> None:
        self._expected, self._cause, self._on_result = expected, cause, on_result
        self._circumstances = circumstances or Circumstances()
        self._is_recorded = is_recorded
        self._last = max(expected, default=0)
        self._counts = {"ids": 0, "lr": 0, "loss": 0, "weights": 0}
        self._steps = 0
        # The first loss that differs, while it is unknown whether the weights do, too.
        self._unsure: tuple[int, float, float] | None = None
        self._only_logged: tuple[int, float, float] | None = None
        self._close: _Difference | None = None  # the first difference that is explained
        # After weights that differ by an explained rounding, the loss of this step must be close.
        self._judged_step: int | None = None
        self.result: StepComparison | None = None
        """The result, once it is known."""

    def compare(self, step: int, mark: StepMark | None) -> None:
        """A step was repeated. A fault of ours ends the comparison, not the training."""
        recorded = self._expected.get(step)
        try:
            if self.result is None and recorded is not None and mark is not None:
                self._steps += 1
                self._compare(step, recorded, mark)
            if step >= self._last:
                self.end()
        except Exception as error:
            log.exception("comparing step %d with its record failed", step)
            if self.result is None:
                self._finish(None, f"not compared: {type(error).__name__} in the comparison")

    def end(self) -> None:
        """Compare no further: the record ends here, or the training was changed."""
        if self.result is not None:
            return
        if self._unsure is not None and self._may_be_mean(self._unsure[0]):
            self._finish_unsure(*self._unsure)
        elif self._unsure is not None:
            self._judge_loss(*self._unsure)
        if self.result is not None:
            return
        if self._close is not None:
            self._finish("close", *self._close)
        elif self._only_logged is not None:
            step, before, now = self._only_logged
            self._finish(
                "close",
                f"step {step:,} logged {now:.6g}, {self._before} {before:.6g}, but the weights "
                "are the same: only the logged number differs; a local variable?",
                *self._only_logged,
                "loss",
            )
        elif self._steps:
            self._finish_equal()
        else:
            text = "not compared: no step was repeated"
            self.result = StepComparison(cause=self._cause, verdict=None, text=text)

    def answer(self, repeated: int) -> dict[str, Any]:
        """The fields of the answer to `back`; ends the comparison.

        Args:
            repeated: how many steps were repeated.
        """
        self.end()
        result, unsaved = self.result, self._circumstances.unsaved
        if repeated == 0 or result is None:
            text = f"{', '.join(unsaved)}: {UNTIL_RESET}" if unsaved else NOTHING_REPEATED
            return {"exact": False if unsaved else None, "text": text, "first_difference": None}
        differs = result.exact is False or result.verdict == "close"
        return {
            "exact": False if unsaved else result.exact,
            "verdict": result.verdict,
            "text": result.text,
            "first_difference": {"step": result.step, "what": result.what} if differs else None,
        }

    # -- one step ---------------------------------------------------------------------------------

    def _compare(self, step: int, recorded: StepMark, mark: StepMark) -> None:
        if self._differs("ids", recorded.ids, mark.ids):
            text = f"step {step:,} trained on other samples than {self._before}"
            self._finish_moved(text, step, None, None, "batch ids")
            return
        if not self._has_rate(step, as_float(recorded.lr), as_float(mark.lr)):
            return
        before, now = as_float(recorded.loss), as_float(mark.loss)
        if self._close is not None:
            self._compare_judged_loss(step, before, now)
            return
        weights = self._compare_weights(recorded.weights, mark.weights)
        is_known = self._unsure is not None or self._only_logged is not None
        if not is_known and self._differs("loss", before, now):
            self._unsure = (step, before, now)  # type: ignore[assignment]
        self._judge(step, weights)

    def _has_rate(self, step: int, before: float | None, now: float | None) -> bool:
        """Compare the learning rate; False if the training has moved."""
        differs_already = self._close is not None or self._only_logged is not None
        may_follow = differs_already and self._circumstances.rate_follows_loss
        has_other = self._close is not None and self._close.what == "lr"
        if self._unsure is not None or may_follow or has_other:
            return True
        if not self._differs("lr", before, now):
            return True
        text = f"step {step:,} used the learning rate {now:.6g}, {self._before} {before:.6g}"
        if self._circumstances.edits:
            text = f"{text}; {self._edits_or_reason()}"
            self._close = _Difference(text, step, before, now, "lr")
            return True
        self._finish_moved(text, step, before, now, "lr")
        return False

    def _judge(self, step: int, weights: bool | None) -> None:
        """Decide by the weights after the step: True if they are equal, None if unknown."""
        if weights is None or self._close is not None:
            return
        if not weights:
            if self._unsure is not None:
                self._judge_loss(*self._unsure)
            else:
                self._judge_weights(step)
        elif self._unsure is not None:
            self._only_logged, self._unsure = self._unsure, None

    def _compare_judged_loss(self, step: int, before: float | None, now: float | None) -> None:
        """The loss after weights that differ by a rounding: a large difference is none."""
        if step == self._judged_step and self._differs("loss", before, now):
            self._judge_loss(step, before, now)  # type: ignore[arg-type]

    def _compare_weights(self, recorded: Any, now: Any) -> bool | None:
        """Whether the sampled weights are equal; None if one of them is unknown."""
        if recorded is None or now is None:
            return None
        self._counts["weights"] += 1
        return bool(_checksum(recorded) == _checksum(now))

    def _differs(self, kind: str, recorded: Any, now: Any) -> bool:
        if recorded is None or now is None:
            return False
        self._counts[kind] += 1
        return not (recorded == now or (recorded != recorded and now != now))  # noqa: PLR0124

    def _judge_weights(self, step: int) -> None:
        """The weights after a step differ, and its loss does not."""
        text = f"the weights after step {step:,} are not those of the record"
        edits, explanations = self._circumstances.edits, self._circumstances.explanations
        if edits or explanations:
            reasons = self._edits_or_reason() if edits else ", ".join(explanations)
            text = f"{'' if edits else 'close: '}{text}; {reasons}"
            self._close = _Difference(text, step, None, None, "weights")
            self._judged_step = None if edits else step + 1
            return
        self._finish("differs", f"{text}: {self._reason()}", step, None, None, "weights")

    def _judge_loss(self, step: int, before: float, now: float) -> None:
        """The loss of a step differs, and the weights after it do not say that it is the same."""
        self._unsure = None
        text = f"step {step:,} gave {now:.6g}, {self._before} {before:.6g}"
        edits, explanations = self._circumstances.edits, self._circumstances.explanations
        limit = CLOSE if self._close is None else CLOSE_AFTER_STEP
        is_small = abs(now - before) <= limit * max(abs(now), abs(before))
        if edits or (explanations and is_small):
            reasons = self._edits_or_reason() if edits else ", ".join(explanations)
            text = f"{'' if edits else 'close: '}{text}; {reasons}"
            self._close = self._close or _Difference(text, step, before, now, "loss")
            return
        self._finish("differs", f"{text}: {self._reason()}", step, before, now, "loss")

    # -- results ----------------------------------------------------------------------------------

    @property
    def _before(self) -> str:
        return "the record says" if self._is_recorded else "the first time"

    def _finish_equal(self) -> None:
        counts = ", ".join(f"{name} {count}" for name, count in self._counts.items() if count)
        if not self._is_recorded:
            text = f"repeatable: made twice, the first step came out alike ({counts}); {NO_RECORD}"
            self._finish("repeatable", text)
            return
        plural = "" if self._steps == 1 else "s"
        text = f"exact over {self._steps:,} repeated step{plural}: {counts}"
        if edits := self._circumstances.edits:
            text = f"{text}; {', '.join(edits)}"
        if unsaved := self._circumstances.unsaved:
            text = f"{text}; later steps may differ: {', '.join(unsaved)}, {UNTIL_RESET}"
        self._finish("exact", text)

    def _may_be_mean(self, step: int) -> bool:
        """Whether the loss of a step may be a mean over steps: one before it has no loss."""
        return any(mark.loss is None for at, mark in self._expected.items() if at < step)

    def _finish_unsure(self, step: int, before: float, now: float) -> None:
        """A loss that some steps have differs, and the record ends before any weights can tell."""
        same = ", the weights before it are the same" if self._counts["weights"] else ""
        reasons = ", or ".join([self._reason(), *self._circumstances.edits])
        text = (
            f"step {step:,} logged {now:.6g}, {self._before} {before:.6g}; not every step logs "
            f"a loss{same}: perhaps only the logged number differs, because a mean over steps "
            f"starts anew; or {reasons}"
        )
        self._finish("close", text, step, before, now, "loss")

    def _finish_moved(
        self, text: str, step: int, before: float | None, now: float | None, what: str
    ) -> None:
        reason = ", or ".join([self._reason(), *self._circumstances.edits])
        self._finish("moved", f"{text}: {reason}", step, before, now, what)

    def _edits_or_reason(self) -> str:
        """What the user changed explains a difference, and so may a state that nothing saves."""
        return f"{', '.join(self._circumstances.edits)}, or {self._reason()}"

    def _reason(self) -> str:
        return ", ".join(self._circumstances.unsaved) or IN_NO_STATE

    def _finish(
        self,
        verdict: Verdict | None,
        text: str,
        step: int | None = None,
        before: float | None = None,
        now: float | None = None,
        what: str | None = None,
    ) -> None:
        self.result = StepComparison(
            cause=self._cause,
            verdict=verdict,
            text=text,
            steps=self._steps,
            compared=dict(self._counts),
            step=step,
            what=what,
            recorded=before,
            repeated=now,
        )
        self._on_result(self.result)


def _checksum(value: Any) -> int:
    """A checksum that is known, or that is on its way from a device."""
    return int(value) if isinstance(value, int | float) else int(value.value)
