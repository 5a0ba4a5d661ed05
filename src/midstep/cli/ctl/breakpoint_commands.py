"""`midstep ctl break`: pause a live run when a condition holds."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, reword_error, with_run_option
from midstep.core.errors import ConfigError

app = typer.Typer(
    help="Pause the run when a condition holds, and keep the evidence.",
    epilog=(
        "Examples: [bold]midstep ctl break add 'loss > 0.05 and step > 100'[/bold] · "
        "[bold]midstep ctl break add --every 500[/bold] · "
        "[bold]midstep ctl break add --loss-z 4[/bold] · [bold]midstep ctl break rm 1[/bold]"
    ),
    no_args_is_help=True,
)

_COMPARISON = re.compile(r"(?P<name>.+?)\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<value>[^\s<>=!]+)\s*")
_Id = Annotated[int, typer.Argument(help="Number of the breakpoint, as `break ls` shows it.")]
_Mark = Annotated[bool, typer.Option("--mark", help="Only record a mark, do not pause the run.")]


@app.command("add", epilog="Example: midstep ctl break add 'loss > 0.05 and step > 100'")
@with_run_option
def add(
    target: RunOption,
    expression: Annotated[
        str | None,
        typer.Argument(help="Condition on a step's scalars, for example 'loss > 2'."),
    ] = None,
    step: Annotated[int | None, typer.Option(help="When this many steps are finished.")] = None,
    every: Annotated[int | None, typer.Option(help="Every this many steps.")] = None,
    nonfinite: Annotated[
        bool, typer.Option("--nonfinite", help="When the loss is NaN or infinite.")
    ] = False,
    loss_z: Annotated[
        float | None,
        typer.Option("--loss-z", help="When the loss is this many deviations above its mean."),
    ] = None,
    window: Annotated[int, typer.Option(help="Steps in that mean.")] = 200,
    grad_norm: Annotated[
        float | None, typer.Option("--grad-norm", help="When the gradient norm is above this.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="When a scalar of any name compares like this: 'train/loss > 2'."),
    ] = None,
    sample: Annotated[
        list[int] | None, typer.Option("--sample", help="When this sample is in the batch.")
    ] = None,
    mark: _Mark = False,
) -> None:
    """Add a breakpoint: an expression, or one of the options."""
    _check_least("--step", step, 0)
    _check_least("--every", every, 1)
    _check_least("--window", window, 8)
    _check_above_zero("--loss-z", loss_z)
    _check_above_zero("--grad-norm", grad_norm)
    conditions: list[dict[str, Any]] = []
    if expression is not None:
        conditions.append({"kind": "expression", "expression": expression})
    if step is not None:
        conditions.append({"kind": "step", "step": step})
    if every is not None:
        conditions.append({"kind": "every", "n": every})
    if nonfinite:
        conditions.append({"kind": "loss_nonfinite"})
    if loss_z is not None:
        conditions.append({"kind": "loss_z", "limit": loss_z, "window": window})
    if grad_norm is not None:
        conditions.append({"kind": "grad_norm", "limit": grad_norm})
    if metric is not None:
        conditions.append({"kind": "metric", **_comparison(metric)})
    if sample:
        conditions.append({"kind": "sample", "ids": sample})
    if len(conditions) != 1:
        raise ConfigError(
            f"a breakpoint takes one condition, got {len(conditions)}; "
            "give an expression such as 'loss > 2', or one option such as --every 500"
        )
    added = target.client().breakpoints.add(**conditions[0], action=_action(mark))
    target.answer(added, _format_breakpoint(added))


@app.command("rule", epilog="Example: midstep ctl break rule dead_relus --mark")
@with_run_option
def add_rule(
    target: RunOption,
    rule: Annotated[str, typer.Argument(help="Name of the rule, as `break rules` shows it.")],
    mark: _Mark = False,
    limit: Annotated[float | None, typer.Option(help="Replaces the limit of the rule.")] = None,
    low: Annotated[float | None, typer.Option(help="Lower limit, of update_ratio.")] = None,
    window: Annotated[
        int | None, typer.Option(help="Measurements in a row, or steps compared.")
    ] = None,
    every: Annotated[int | None, typer.Option(help="Measure every this many steps.")] = None,
    layers: Annotated[
        str | None, typer.Option(help="Only layers whose name contains this.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Scalar that overfitting reads.")] = None,
) -> None:
    """Add a ready-made rule; `midstep ctl break rules` lists them."""
    client = target.client()
    known = [each["rule"] for each in client.breakpoints.rules()]
    if rule not in known:
        raise ConfigError(f"there is no rule {rule}; there are {', '.join(known)}")
    given: dict[str, Any] = {
        "limit": limit,
        "low": low,
        "window": window,
        "every": every,
        "layers": layers,
        "metric": metric,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    added = client.breakpoints.add_rule(rule, action=_action(mark), **settings)
    target.answer(added, _format_breakpoint(added))


@app.command("rules", epilog="Example: midstep ctl break rules")
@with_run_option
def list_rules(target: RunOption) -> None:
    """List the ready-made rules: what each looks for, and what a finding means."""
    rules = target.client().breakpoints.rules()
    target.answer(rules, "\n".join(map(_format_rule, rules)))


@app.command("ls", epilog="Example: midstep ctl break ls")
@with_run_option
def list_breakpoints(target: RunOption) -> None:
    """List the breakpoints with their hits."""
    breakpoints = target.client().breakpoints.list()
    lines = "\n".join(map(_format_breakpoint, breakpoints))
    target.answer(
        breakpoints, lines or "no breakpoints; add one with: midstep ctl break add 'loss > 2'"
    )


@app.command("rm", epilog="Example: midstep ctl break rm 1")
@with_run_option
def remove(target: RunOption, breakpoint_id: _Id) -> None:
    """Remove a breakpoint."""
    client = target.client()
    with _reworded(breakpoint_id):
        client.breakpoints.remove(breakpoint_id)
    target.answer({"removed": breakpoint_id}, f"breakpoint {breakpoint_id} removed")


@app.command("on", epilog="Example: midstep ctl break on 1")
@with_run_option
def switch_on(target: RunOption, breakpoint_id: _Id) -> None:
    """Switch a breakpoint on."""
    _switch(target, breakpoint_id, enabled=True)


@app.command("off", epilog="Example: midstep ctl break off 1")
@with_run_option
def switch_off(target: RunOption, breakpoint_id: _Id) -> None:
    """Switch a breakpoint off; its number of hits stays."""
    _switch(target, breakpoint_id, enabled=False)


def _switch(target: RunOption, breakpoint_id: int, *, enabled: bool) -> None:
    client = target.client()
    with _reworded(breakpoint_id):
        changed = client.breakpoints.enable(breakpoint_id, enabled=enabled)
    target.answer(changed, _format_breakpoint(changed))


def _reworded(breakpoint_id: int) -> AbstractContextManager[None]:
    return reword_error(
        "no_breakpoint",
        f"there is no breakpoint {breakpoint_id}; `midstep ctl break ls` lists them",
    )


def _check_least(option: str, given: int | None, least: int) -> None:
    if given is not None and given < least:
        raise ConfigError(f"{option} must be at least {least}, got {given}")


def _check_above_zero(option: str, given: float | None) -> None:
    if given is not None and not given > 0:
        raise ConfigError(f"{option} must be above 0, got {given:g}")


def _comparison(text: str) -> dict[str, Any]:
    """Split `train/loss > 2` into name, operator and value; a name may hold spaces and slashes."""
    match = _COMPARISON.fullmatch(text.strip())
    try:
        value = float(match["value"]) if match else None
    except ValueError:
        value = None
    if match is None or value is None:
        raise ConfigError(
            f"--metric: expected a name, one of < <= > >= == != and a number, got {text!r}; write "
            "for example 'train/loss > 2'"
        )
    return {"name": match["name"], "op": match["op"], "value": value}


def _action(mark: bool) -> str:
    return "mark" if mark else "pause"


def _format_breakpoint(each: dict[str, Any]) -> str:
    hits = f"{each['hits']} hit{'' if each['hits'] == 1 else 's'}"
    marks = "  marks only" if each["action"] == "mark" else ""
    return f"{each['id']}  {each['words']}  {hits}{marks}{'' if each['enabled'] else '  off'}"


def _format_rule(rule: dict[str, Any]) -> str:
    return f"{rule['rule']}\n  {rule['words']}\n  {rule['explanation']['means']}"
