"""`midstep ctl back`, `rewind`, `certify`, and the commands of a session."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from midstep.cli.status import state_words
from midstep.cli.target import Target, on_target
from midstep.cli.wording import number_words
from midstep.core.errors import ConfigError

__all__ = ["back", "certify", "hparams", "load", "reset", "rewind", "run_command", "save"]


@on_target
def back(
    target: Target,
    n: Annotated[int | None, typer.Argument(min=1, help="Steps to take back.")] = None,
    to: Annotated[
        int | None, typer.Option("--to", min=0, help="The step to stand at instead.")
    ] = None,
) -> None:
    """Return to the state before the last N steps (1), or to a step; the run must be paused."""
    if n is not None and to is not None:
        raise ConfigError("give a number of steps or --to STEP, not both")
    state = target.client().back(n, step=to)
    late = "state" not in state
    words = f"accepted as {state.get('id', 'a command')}, not there yet" if late else ""
    target.answer(state, words or state_words(state))


@on_target
def rewind(target: Target) -> None:
    """Show how far back one can go, and what that takes."""
    found = target.client().rewind()
    target.answer(found, _rewind_words(found))


def _rewind_words(found: dict[str, Any]) -> str:
    if not found["available"]:
        return str(found["reason"])
    cost = found["replay_cost_s"]
    taken = "" if cost is None else f", in at most about {number_words(cost)} s"
    megabytes, most = (number_words(found[key] / 1e6) for key in ("bytes", "budget_bytes"))
    return (
        f"at step {found['step']:,}, back to step {found['first_step']:,}{taken}; "
        f"{len(found['snapshot_steps'])} snapshots take {megabytes} of {most} MB"
    )


@on_target
def hparams(
    target: Target,
    settings: Annotated[
        list[str], typer.Argument(help="NAME=VALUE: lr, weight_decay, lr_mul, wd_mul, momentum, …")
    ],
) -> None:
    """Change hyperparameters from the next step on; shows what they were."""
    wanted = dict(_setting(each) for each in settings)
    told = target.client().set_hparams(**wanted)
    _answer(target, told, lambda result: _old_words(result.get("old", {})))


def _setting(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        given = value if found else text
        raise ConfigError(f"{given!r} is no number; write lr=0.01 or betas=[0.9,0.99]") from None


def _old_words(old: dict[str, Any]) -> str:
    told = ", ".join(f"{name} was {_values_words(values)}" for name, values in old.items())
    return told or "changed"


def _values_words(values: Any) -> str:
    """One value where all groups have the same."""
    found = values if isinstance(values, list) else [values]
    different = list(dict.fromkeys(map(str, found)))
    return ", ".join(different)


@on_target
def certify(
    target: Target,
    steps: Annotated[int, typer.Argument(min=1, help="Steps to make twice.")] = 2,
) -> None:
    """Make STEPS steps twice and compare every bit; the run must be paused, and stays there."""
    _answer(target, target.client().certify(steps), lambda result: str(result["text"]))


@on_target
def save(target: Target) -> None:
    """Write a checkpoint at the next boundary."""
    told = target.client().command("save_checkpoint")
    _answer(target, told, lambda result: f"saved {result['checkpoint']}")


@on_target
def load(
    target: Target,
    step: Annotated[
        int | None, typer.Argument(min=0, help="Of the checkpoint; the newest when left out.")
    ] = None,
) -> None:
    """Go to a checkpoint of this run."""
    payload = {} if step is None else {"step": step}
    told = target.client().command("load_checkpoint", **payload)
    _answer(target, told, _where_words)


@on_target
def reset(target: Target) -> None:
    """Go back to before step 0."""
    _answer(target, target.client().command("reset_session"), _where_words)


def _where_words(result: dict[str, Any]) -> str:
    return f"at step {result['step']:,} of timeline {result['timeline']}"


@on_target
def run_command(
    target: Target,
    name: Annotated[str, typer.Argument(help="Any command, as an error about one lists them.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE, values as JSON.")
    ] = None,
) -> None:
    """Carry out any command of the run, and show its result as JSON."""
    told = target.client().command(name, **dict(_setting(each) for each in settings or []))
    _answer(target, told, lambda result: json.dumps(result, indent=2))


def _answer(target: Target, told: dict[str, Any], words: Any) -> None:
    """The result of a command; an error where it failed, its id where it still runs."""
    if told["status"] == "failed":
        raise ConfigError(f"{told['command']} failed: {told['reason']}")
    ended = told["status"] == "done"
    late = f"accepted as {told['id']}, not done yet; `midstep ctl commands` shows it"
    target.answer(told, words(told["result"] or {}) if ended else late)
