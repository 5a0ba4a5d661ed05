"""`midstep ctl break`: stop a live run when a condition holds."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Annotated, Any

import typer

from midstep.cli.rules import add_rule_commands
from midstep.cli.target import Target, in_terminal_words, on_target
from midstep.core.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(
    help="Stop the run when a condition holds, with its evidence kept.",
    epilog=(
        "Examples: [bold]midstep ctl break add 'loss > 0.05 and step > 100'[/bold] · "
        "[bold]midstep ctl break add --every 500[/bold] · "
        "[bold]midstep ctl break add --loss-z 4[/bold] · [bold]midstep ctl break rm 1[/bold]"
    ),
    no_args_is_help=True,
)

_COMPARISON = re.compile(r"(?P<name>.+?)\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<value>[^\s<>=!]+)\s*")
_Id = Annotated[int, typer.Argument(help="Number of the breakpoint, as `break ls` shows it.")]


@app.command("add", epilog="Example: midstep ctl break add 'loss > 0.05 and step > 100'")
@on_target
def add(
    target: Target,
    expression: Annotated[
        str | None, typer.Argument(help="Over this step's scalars, for example 'loss > 2'.")
    ] = None,
    step: Annotated[int | None, typer.Option(help="When this many steps are finished.")] = None,
    every: Annotated[int | None, typer.Option(help="Every so many steps.")] = None,
    nonfinite: Annotated[
        bool, typer.Option("--nonfinite", help="When the loss is NaN or infinite.")
    ] = False,
    loss_z: Annotated[
        float | None,
        typer.Option("--loss-z", help="When the loss is so many deviations above its mean."),
    ] = None,
    window: Annotated[int, typer.Option(help="Steps in that mean.")] = 200,
    grad_norm: Annotated[
        float | None, typer.Option("--grad-norm", help="When the gradient norm is above this.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="When a scalar of any name compares so, for example 'train/loss > 2'."),
    ] = None,
    sample: Annotated[
        list[int] | None, typer.Option("--sample", help="When this sample is in the batch.")
    ] = None,
    mark: Annotated[
        bool, typer.Option("--mark", help="Only mark the run, do not stop it.")
    ] = False,
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
    action = "mark" if mark else "pause"
    made = target.client().add_breakpoint(**conditions[0], action=action)
    target.answer(made, _words(made))


@app.command("ls", epilog="Example: midstep ctl break ls")
@on_target
def list_breakpoints(target: Target) -> None:
    """List the breakpoints with what they have done so far."""
    found = target.client().breakpoints()
    lines = "\n".join(_words(each) for each in found)
    target.answer(found, lines or "no breakpoints; add one with: midstep ctl break add 'loss > 2'")


@app.command("rm", epilog="Example: midstep ctl break rm 1")
@on_target
def remove(target: Target, breakpoint_id: _Id) -> None:
    """Remove a breakpoint."""
    client = target.client()
    with _known(breakpoint_id):
        client.remove_breakpoint(breakpoint_id)
    target.answer({"removed": breakpoint_id}, f"breakpoint {breakpoint_id} removed")


@app.command("on", epilog="Example: midstep ctl break on 1")
@on_target
def switch_on(target: Target, breakpoint_id: _Id) -> None:
    """Switch a breakpoint on."""
    _switch(target, breakpoint_id, enabled=True)


@app.command("off", epilog="Example: midstep ctl break off 1")
@on_target
def switch_off(target: Target, breakpoint_id: _Id) -> None:
    """Switch a breakpoint off; it keeps its count."""
    _switch(target, breakpoint_id, enabled=False)


def _switch(target: Target, breakpoint_id: int, *, enabled: bool) -> None:
    client = target.client()
    with _known(breakpoint_id):
        made = client.enable_breakpoint(breakpoint_id, enabled=enabled)
    target.answer(made, _words(made))


def _known(breakpoint_id: int) -> AbstractContextManager[None]:
    return in_terminal_words(
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
    """`train/loss > 2` as name, operator and value; the name may hold anything but an operator."""
    found = _COMPARISON.fullmatch(text.strip())
    try:
        value = float(found["value"]) if found else None
    except ValueError:
        value = None
    if found is None or value is None:
        raise ConfigError(
            f"--metric {text!r} is no comparison; give a name, one of < <= > >= == != and a "
            "number, for example 'train/loss > 2'"
        )
    return {"name": found["name"], "op": found["op"], "value": value}


def _words(each: dict[str, Any]) -> str:
    hits = f"{each['hits']} hit{'' if each['hits'] == 1 else 's'}"
    marks = "  marks only" if each["action"] == "mark" else ""
    return f"{each['id']}  {each['words']}  {hits}{marks}{'' if each['enabled'] else '  off'}"


add_rule_commands(app, _words)
