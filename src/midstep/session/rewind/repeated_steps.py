"""Compares steps that are made again with what was recorded of them the first time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from midstep.control.capture.captured_data import as_float

if TYPE_CHECKING:
    from midstep.session.state.training_state import StepMark

log = logging.getLogger("midstep.session")
Verdict = Literal["exact", "moved", "differs", "close"]
CLOSE = 1e-3
"""Relative difference of the loss that other kernels, threads or versions of torch explain."""
IN_NO_STATE = "something that is in no state has moved"
UNTIL_RESET = "not exact until the next reset of the environment"


@dataclass(frozen=True, kw_only=True)
class StepComparison:
    """How the repeated steps came out."""

    cause: str
    """Why steps were repeated: `resume` or `back`."""
    verdict: Verdict | None
    """`exact`: all compared bits are equal. `moved`: ids or learning rate differ. `differs`: the
    loss or the weights differ. `close`: they differ, and the circumstances explain it, or only the
    logged number does. None: nothing was compared."""
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
        """True or False if that is known; None for `close`, and if nothing was compared."""
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
    """What the user changed and what may explain any difference, in words."""
    unsaved: Sequence[str] = ()
    """What the state does not have although the user declared it, such as a simulator, in words."""


class RepeatedSteps:
    """Compares repeated steps, one by one, until one differs or the record ends.

    A loss that differs is only called a difference if the weights differ too: the user may log a
    mean over steps, which starts anew in another process.

    Args:
        expected: marks of the steps as they were recorded, by step.
        cause: why steps are repeated: `resume` or `back`.
        on_result: called once, with the result.
        circumstances: what else is different.

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
    ) -> None:
        self._expected, self._cause, self._on_result = expected, cause, on_result
        self._circumstances = circumstances or Circumstances()
        self._last = max(expected, default=0)
        self._counts = {"ids": 0, "lr": 0, "loss": 0, "weights": 0}
        self._steps = 0
        # The first loss that differs, while it is unknown whether the weights do, too.
        self._unsure: tuple[int, float, float] | None = None
        self._only_logged: tuple[int, float, float] | None = None
        self.result: StepComparison | None = None
        """The result, once it is known."""

    def compare(self, step: int, mark: StepMark | None) -> None:
        """A step was made again. A fault of ours ends the comparison, not the training."""
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
        if self._unsure is not None:
            self._finish_loss(*self._unsure)
        elif self._only_logged is not None:
            step, before, now = self._only_logged
            self._finish(
                "close",
                f"step {step:,} logged {now:.6g}, the record says {before:.6g}, but the weights "
                "are the same: only the logged number differs; a local variable?",
                *self._only_logged,
                "loss",
            )
        elif self._steps:
            counts = ", ".join(f"{name} {count}" for name, count in self._counts.items() if count)
            plural = "" if self._steps == 1 else "s"
            text = f"exact over {self._steps:,} repeated step{plural}: {counts}"
            if unsaved := self._circumstances.unsaved:
                text = f"{text}; later steps may differ: {', '.join(unsaved)}, {UNTIL_RESET}"
            self._finish("exact", text)
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
            # The snapshot of that very step was restored; nothing had to be repeated.
            if unsaved:
                text = f"{', '.join(unsaved)}: {UNTIL_RESET}"
                return {"exact": False, "text": text, "first_difference": None}
            return {"exact": True, "first_difference": None}
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
            text = f"step {step:,} trained on other samples than the record says"
            self._finish_moved(text, step, None, None, "batch ids")
            return
        weights = self._compare_weights(recorded.weights, mark.weights)
        known_to_differ = self._unsure or self._only_logged
        before, now = as_float(recorded.lr), as_float(mark.lr)
        # After a loss that differs a rate may follow from it, as with ReduceLROnPlateau.
        if known_to_differ is None and self._differs("lr", before, now):
            text = f"step {step:,} used the learning rate {now:.6g}, the record says {before:.6g}"
            self._finish_moved(text, step, before, now, "lr")
            return
        before, now = as_float(recorded.loss), as_float(mark.loss)
        if known_to_differ is None and self._differs("loss", before, now):
            self._unsure = (step, before, now)  # type: ignore[assignment]
        self._judge(step, weights)

    def _judge(self, step: int, weights: bool | None) -> None:
        """Decide by the weights after the step: True if they are equal, None if unknown."""
        if weights is None:
            return
        if not weights:
            if self._unsure is not None:
                self._finish_loss(*self._unsure)
            else:
                self._finish_weights(step)
        elif self._unsure is not None:
            self._only_logged, self._unsure = self._unsure, None

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

    # -- results ----------------------------------------------------------------------------------

    def _finish_moved(
        self, text: str, step: int, before: float | None, now: float | None, what: str
    ) -> None:
        if self._finish_edited(text, step, before, now, what):
            return
        self._finish("moved", f"{text}: {self._reason()}", step, before, now, what)

    def _finish_weights(self, step: int) -> None:
        text = f"the weights after step {step:,} are not those of the record"
        if self._finish_edited(text, step, None, None, "weights"):
            return
        if explanations := self._circumstances.explanations:
            text = f"close: {text}; {', '.join(explanations)}"
            self._finish("close", text, step, None, None, "weights")
            return
        self._finish("differs", f"{text}: {self._reason()}", step, None, None, "weights")

    def _finish_loss(self, step: int, before: float, now: float) -> None:
        text = f"step {step:,} gave {now:.6g}, the record says {before:.6g}"
        if self._finish_edited(text, step, before, now, "loss"):
            return
        explanations = self._circumstances.explanations
        if explanations and abs(now - before) <= CLOSE * max(abs(now), abs(before)):
            text = f"close: {text}; {', '.join(explanations)}"
            self._finish("close", text, step, before, now, "loss")
            return
        self._finish("differs", f"{text}: {self._reason()}", step, before, now, "loss")

    def _reason(self) -> str:
        return ", ".join(self._circumstances.unsaved) or IN_NO_STATE

    def _finish_edited(self, text: str, *difference: Any) -> bool:
        """Whether an edit of the user may be the reason; then the result is not called wrong."""
        edits = self._circumstances.edits
        if edits:
            self._finish("close", f"{text}; {', '.join(edits)}", *difference)
        return bool(edits)

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
