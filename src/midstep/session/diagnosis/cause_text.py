"""A diagnosis in words: what stopped the run, and where the first bad value appeared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstep.explore.diagnosis.changes import Change
from midstep.explore.diagnosis.forward_trace import Origin

MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class SampleNames:
    """How the samples of a step are called."""

    ids: Sequence[int] | None
    """In batch order; None if the loader knows none."""

    def sample(self, position: int) -> str:
        """`sample 1,234`, or `the sample at position 3`."""
        if self.ids is None or not 0 <= position < len(self.ids):
            return f"the sample at position {position:,}"
        return f"sample {self.ids[position]:,}"

    def list(self, positions: Sequence[int], total: int) -> str:
        """Up to three of them by name, else their number."""
        if not 0 < total <= MOST_NAMED or len(positions) < total:
            return f"{total:,} samples"
        names = [self.sample(each) for each in positions[:total]]
        return names[0] if total == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def symptom(evidence: Mapping[str, Any] | None, loss: float | None, failed: str | None) -> str:
    """What was noticed first, as the title of the stop.

    >>> symptom({"condition": "loss is not finite", "value": float("nan")}, None, None)
    'Loss is NaN.'
    """
    if evidence is None:
        return failed or "The run failed."
    value, rule = evidence.get("value"), evidence.get("explanation")
    if rule is not None:
        return f"{rule['title']}."
    condition = str(evidence.get("condition", ""))
    if condition == "loss is not finite":
        return f"Loss is {number(value if isinstance(value, float) else loss)}."
    if condition.startswith("grad_norm") and _is_odd(value):
        return f"Gradient norm is {number(value)}."
    if loss is not None and not math.isfinite(loss):
        return f"Loss is {number(loss)}."
    if condition.startswith("loss z-score") and loss is not None:
        return f"Loss rose to {number(loss)}."
    return ""


def number(value: Any) -> str:
    """A number for a sentence.

    >>> number(float("-inf")), number(0.125)
    ('−∞', '0.125')
    """
    if not isinstance(value, int | float):
        return "not finite"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4g}".replace("-", "−")


def _is_odd(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def origin_words(origin: Origin, first_module: str | None, source: str | None) -> str:
    """Where the first value that is not finite is: `input of sample 1,234 → conv1 output`.

    Args:
        origin: what the passes showed.
        first_module: the first module with a bad output.
        source: for an input, whose it is.
    """
    if origin.kind == "input":
        words = source or f"argument of {origin.name or 'the model'}"
        return words if first_module is None else f"{words} → {first_module or 'model'} output"
    if origin.kind == "parameter":
        return f"parameter {origin.name}, before this step"
    if origin.kind == "gradient":
        return f"gradient of {origin.name}"
    if origin.kind == "module":
        return f"output of {origin.name or 'the model'}"
    return _operation_words(origin)


def _operation_words(origin: Origin) -> str:
    if origin.name == "loss":
        return "the loss; every output of the model is finite"
    owner = f"forward of {origin.name}" if origin.name else "forward of the model"
    if origin.after is not None and origin.before is not None:
        return f"{owner}, between {origin.after} and {origin.before}"
    if origin.before is not None:
        return f"{owner}, before {origin.before}"
    return owner if origin.after is None else f"{owner}, after {origin.after}"


def origin_row(origin: Origin) -> tuple[str, str] | None:
    """What the first bad value is, and where, for the table of changes; None for an input.

    >>> origin_row(Origin(kind="module", name="fc1"))
    ('First bad layer', 'fc1')
    """
    where = origin.name or "the model"
    if origin.kind == "operation":
        if origin.name == "loss":
            return "Loss", "Its inputs are finite"
        return "First bad value", _near(origin) or f"In {where}"
    kinds = {
        "module": "First bad layer",
        "parameter": "First bad weight",
        "gradient": "First bad gradient",
    }
    return (kinds[origin.kind], where) if origin.kind in kinds else None


def _near(origin: Origin) -> str | None:
    """The module beside code of a `forward`."""
    pairs = (("Before", origin.before), ("After", origin.after))
    return next((f"{word} {name}" for word, name in pairs if name is not None), None)


def field_words(field: str) -> str:
    """The part of a batch in words: of a pair the input or the target, else its name.

    >>> field_words("1"), field_words("pixel_values"), field_words("")
    ('target', 'pixel_values', 'input')
    """
    if field in ("", "0"):
        return "input"
    if field == "1":
        return "target"
    return f"part {field}" if field.isdigit() else field


def change_words(change: Change) -> str:
    """The first change as a cause: `Learning rate × 80 at step 300`."""
    if change.key == "dead":
        return f"{change.what}: {change.reading} ({_percent(change.after)}){_at(change)}"
    if change.key == "inputs":
        return f"{int(change.after or 0):,} values of the batch are not finite"
    if change.key == "loss_share":
        return f"{change.reading} carries {_percent(change.after)} of the loss"
    if change.key.partition(".")[0] == "lr":
        values = f"{number(change.before)} → {number(change.after)}"
        return f"{change.what} {values} ({change.reading}){_at(change)}"
    if change.key == "batch_size":
        sizes = f"{int(change.before or 0):,} → {int(change.after or 0):,}"
        return f"Batch size {sizes}{_at(change)}"
    reading = change.reading[:1].lower() + change.reading[1:]
    return f"{change.what} {reading}{_at(change)}"


def _at(change: Change) -> str:
    return "" if change.step is None else f" at step {change.step:,}"


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{100 * share:.0f} %"
