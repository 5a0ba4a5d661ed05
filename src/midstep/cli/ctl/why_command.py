"""`midstep ctl why`: where the last stop came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from midstep.cli.ctl.run_option import RunOption, with_run_option
from midstep.cli.output.text_format import align_columns, format_number

NONE = "The run was not stopped by a breakpoint, a rule or an error so far."
_STATUS = {"source": "source", "first": "first bad layer", "carries": "carries it", "ok": ""}


@with_run_option
def why(target: RunOption) -> None:
    """Show where the last stop came from: the first bad layer, the samples, and what changed.

    --json gives all numbers.
    """
    stop = target.client().why()
    target.answer(stop, "\n".join(_lines(stop)))


def _lines(stop: dict[str, Any]) -> Iterator[str]:
    failure, diagnosis = stop["failure"], stop["diagnosis"]
    if failure is not None:
        yield from (failure["traceback"] or failure["error"]).rstrip().splitlines()
    if diagnosis is not None:
        yield from _diagnosis_lines(diagnosis)
    elif failure is None:
        yield NONE


def _diagnosis_lines(diagnosis: dict[str, Any]) -> Iterator[str]:
    words = " ".join(part for part in (diagnosis["title"], diagnosis["cause"]) if part)
    yield f"step {diagnosis['step']:,}: {words or 'no cause was found'}"
    for each in diagnosis["inputs"]:
        yield f"  {_input_words(each)}"
    broken = [each for each in diagnosis["layers"] if each["status"] != "ok"]
    rows = [(each["name"], _STATUS[each["status"]], _share(each["bad"])) for each in broken]
    if rows:
        yield from align_columns([("layer", "status", "not finite"), *rows], right=(2,))
    changes = [_change_row(each) for each in diagnosis["changes"]]
    if changes:
        steps = diagnosis["steps"]
        yield f"steps {steps[0]:,} to {steps[-1]:,}:"
        header = ("changed", "before", "after", "step", "reading")
        yield from align_columns([header, *changes], right=(1, 2, 3))
    yield from diagnosis["notes"]


def _input_words(each: dict[str, Any]) -> str:
    name = f"position {each['position']:,}" if each["sample"] is None else f"{each['sample']:,}"
    where = f", {each['where']}" if each["where"] else ""
    return f"sample {name}: {each['bad']:,} of {each['of']:,} values{where}, {each['what']}"


def _change_row(each: dict[str, Any]) -> tuple[str, ...]:
    step = "" if each["step"] is None else f"{each['step']:,}"
    before, after = (_number(each[name]) for name in ("before", "after"))
    return each["what"], before, after, step, each["reading"]


def _number(value: Any) -> str:
    return "" if value is None else format_number(value)


def _share(value: Any) -> str:
    return "" if value is None else f"{100 * value:.2f} %"
