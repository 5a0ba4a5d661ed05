"""`midstep ctl`: the commands that move a run, change it, or save and load its state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, with_run_option
from midstep.cli.output.status_line import format_state
from midstep.cli.output.text_format import format_number
from midstep.core.errors import ConfigError


@with_run_option
def pause(target: RunOption) -> None:
    """Pause the run at its next step boundary."""
    _print_state(target, target.client().pause())


@with_run_option
def step(
    target: RunOption,
    n: Annotated[int, typer.Argument(min=1, help="Number of steps.")] = 1,
) -> None:
    """Run N steps (1), then pause again. The run must be paused."""
    _print_state(target, target.client().step(n))


@with_run_option
def back(
    target: RunOption,
    n: Annotated[int | None, typer.Argument(min=1, help="Number of steps to take back.")] = None,
    to: Annotated[int | None, typer.Option("--to", min=0, help="Go back to this step.")] = None,
    info: Annotated[
        bool, typer.Option("--info", help="Only show how far back the run can go, and the cost.")
    ] = False,
) -> None:
    """Go back N steps (1), or to a step. The run must be paused."""
    if sum((n is not None, to is not None, info)) > 1:
        raise ConfigError("give a number of steps, --to STEP or --info, not two of them")
    client = target.client()
    if info:
        rewind = client.rewind()
        target.answer(rewind, _format_rewind(rewind))
        return
    _print_state(target, client.back(n, step=to))


@with_run_option
def resume(target: RunOption) -> None:
    """Continue the run."""
    _print_state(target, target.client().resume())


@with_run_option
def run_until(
    target: RunOption,
    step: Annotated[int, typer.Argument(min=0, help="Number of finished steps to pause at.")],
) -> None:
    """Continue the run, and pause when STEP steps are finished."""
    _print_state(target, target.client().run_until(step))


@with_run_option
def stop(target: RunOption) -> None:
    """End the training at its next step boundary."""
    _print_state(target, target.client().stop())


@with_run_option
def hparams(
    target: RunOption,
    settings: Annotated[
        list[str], typer.Argument(help="NAME=VALUE: lr, weight_decay, lr_mul, wd_mul, momentum, …")
    ],
) -> None:
    """Change hyperparameters from the next step on, and show the old values."""
    values = dict(_parse_setting(each) for each in settings)
    record = target.client().set_hparams(**values)
    _print_result(target, record, lambda result: _format_old(result.get("old", {})))


@with_run_option
def save(target: RunOption) -> None:
    """Write a checkpoint at the next step boundary."""
    record = target.client().command("save_checkpoint")
    _print_result(target, record, lambda result: f"saved {result['checkpoint']}")


@with_run_option
def load(
    target: RunOption,
    step: Annotated[
        int | None, typer.Argument(min=0, help="Step of the checkpoint; the newest if left out.")
    ] = None,
) -> None:
    """Load a checkpoint of this run."""
    payload = {} if step is None else {"step": step}
    record = target.client().command("load_checkpoint", **payload)
    _print_result(target, record, _format_position)


@with_run_option
def reset(target: RunOption) -> None:
    """Return to the state before step 0."""
    _print_result(target, target.client().command("reset_session"), _format_position)


@with_run_option
def certify(
    target: RunOption,
    steps: Annotated[int, typer.Argument(min=1, help="Number of steps to run twice.")] = 2,
) -> None:
    """Run STEPS steps twice and compare every bit. The run must be paused, and stays there."""
    _print_result(target, target.client().certify(steps), lambda result: str(result["text"]))


@with_run_option
def run_command(
    target: RunOption,
    name: Annotated[str, typer.Argument(help="Name of the command; a wrong one lists all.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE, values as JSON.")
    ] = None,
) -> None:
    """Run any command by its name, and show its result as JSON."""
    payload = dict(_parse_setting(each) for each in settings or [])
    record = target.client().command(name, **payload)
    _print_result(target, record, lambda result: json.dumps(result, indent=2))


@with_run_option
def cancel(
    target: RunOption,
    command_id: Annotated[str, typer.Argument(help="Id of the command, from ctl log --json.")],
) -> None:
    """Cancel a waiting command, or ask a running one to end."""
    record = target.client().cancel(command_id)
    target.answer(record, f"{record['command']} {record['status']}")


def _print_state(target: RunOption, state: dict[str, Any]) -> None:
    """Print the state after a verb, or the id of the command if it takes longer."""
    # The server answers after 2 s at the latest. Then it sends the command's record, which has
    # no `state`, instead of the state of the run.
    if "state" in state:
        target.answer(state, format_state(state))
    else:
        target.answer(state, _format_accepted(state))


def _print_result(
    target: RunOption, record: dict[str, Any], format_result: Callable[[dict[str, Any]], str]
) -> None:
    """Print the result of a command, or its id if it takes longer; raise if it failed."""
    if record["status"] == "failed":
        raise ConfigError(f"{record['command']} failed: {record['reason']}")
    is_done = record["status"] == "done"
    text = format_result(record["result"] or {}) if is_done else _format_accepted(record)
    target.answer(record, text)


def _format_accepted(record: dict[str, Any]) -> str:
    return f"accepted as {record.get('id', 'a command')}, not done yet; see `midstep ctl log`"


def _format_rewind(rewind: dict[str, Any]) -> str:
    if not rewind["available"]:
        return str(rewind["reason"])
    cost = rewind["replay_cost_s"]
    duration = "" if cost is None else f", in at most about {format_number(cost)} s"
    megabytes, limit = (format_number(rewind[key] / 1e6) for key in ("bytes", "budget_bytes"))
    return (
        f"at step {rewind['step']:,}, back to step {rewind['first_step']:,}{duration}; "
        f"{len(rewind['snapshot_steps'])} snapshots take {megabytes} of {limit} MB"
    )


def _parse_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        given = value if equals else text
        raise ConfigError(f"{given!r} is no number; write lr=0.01 or betas=[0.9,0.99]") from None


def _format_old(old: dict[str, Any]) -> str:
    lines = [f"{name} was {_format_values(values)}" for name, values in old.items()]
    return ", ".join(lines) or "changed"


def _format_values(values: Any) -> str:
    """Format the values of all parameter groups, equal ones once."""
    groups = values if isinstance(values, list) else [values]
    return ", ".join(dict.fromkeys(map(str, groups)))


def _format_position(result: dict[str, Any]) -> str:
    return f"at step {result['step']:,} of timeline {result['timeline']}"
