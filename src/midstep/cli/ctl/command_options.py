"""`midstep ctl`: one command for each definition of `core.commands`, and any command by name.

Arguments, limits and help come from the definitions. `FORMS` says what does not follow from them:
shorter names, examples, and how a result is printed.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, keyword_parameter, with_run_option
from midstep.cli.output.status_line import format_state
from midstep.cli.output.text_format import format_number
from midstep.core.commands.catalog import BACK
from midstep.core.commands.definition import CommandDefinition, Least, Most, PayloadField
from midstep.core.errors import ConfigError

MAX_ARGUMENTS = 2
"""Commands with more fields take NAME=VALUE instead of arguments and options."""
_Settings = Annotated[list[str] | None, typer.Argument(help="NAME=VALUE, values as JSON.")]


def _format_text(result: dict[str, Any]) -> str:
    """Return the text that the command wrote, else its result as JSON."""
    return str(result["text"]) if "text" in result else json.dumps(result, indent=2)


def _format_old(result: dict[str, Any]) -> str:
    lines = [
        f"{name} was {_format_values(values)}" for name, values in result.get("old", {}).items()
    ]
    return (", ".join(lines) or "changed") + _format_not_kept(result)


def _format_values(values: Any) -> str:
    """Format the values of all parameter groups, equal ones once."""
    groups = values if isinstance(values, list) else [values]
    return ", ".join(dict.fromkeys(map(str, groups)))


def _format_position(result: dict[str, Any]) -> str:
    position = f"at step {result['step']:,} of timeline {result['timeline'] + 1}"
    return position + _format_not_kept(result)


def _format_not_kept(result: dict[str, Any]) -> str:
    reason = result.get("not_kept")
    return f"; not kept if the process ends: {reason}" if reason else ""


@dataclass(frozen=True, kw_only=True)
class TerminalForm:
    """What the terminal shows of a command besides its definition."""

    name: str | None = None
    """Name after `midstep ctl`; that of the command if left out."""
    example: str = ""
    """Arguments of the example in the help."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Names of options by field, where they differ from the field."""
    format_result: Callable[[dict[str, Any]], str] = _format_text
    """Writes the result of a command that is not a verb."""


FORMS = {
    "step": TerminalForm(example="5"),
    "back": TerminalForm(example="5", options={"step": "--to"}),
    "resume": TerminalForm(example="--run demo"),
    "run_until": TerminalForm(example="1000"),
    "set_hparams": TerminalForm(name="hparams", example="lr=0.01", format_result=_format_old),
    "save_checkpoint": TerminalForm(
        name="save", format_result=lambda result: f"saved {result['checkpoint']}"
    ),
    "load_checkpoint": TerminalForm(name="load", example="500", format_result=_format_position),
    "reset_session": TerminalForm(name="reset", format_result=_format_position),
    "determinism_health": TerminalForm(name="certify", example="5"),
    "influence": TerminalForm(example="16"),
}


def add_command(app: typer.Typer, definition: CommandDefinition[Any], panel: str) -> None:
    """Add the command of a definition to one group of the help."""
    form = FORMS.get(definition.name, TerminalForm())
    name = form.name or definition.name.replace("_", "-")
    example = f"Example: midstep ctl {name} {form.example}".rstrip()
    app.command(name, epilog=example, rich_help_panel=panel, help=definition.help)(
        _terminal_function(definition, form)
    )


def _terminal_function(
    definition: CommandDefinition[Any], form: TerminalForm
) -> Callable[..., None]:
    """Return the function that typer calls, with the fields of the payload as parameters."""

    def run(target: RunOption, **given: Any) -> None:
        if "settings" in given:
            payload = dict(_parse_setting(each) for each in given["settings"])
        else:
            payload = {name: value for name, value in given.items() if value is not None}
        if definition is BACK and _shows_rewind(target, payload):
            return
        client = target.client()
        if definition.verb:
            state = client.verb(definition.name, **payload)
            _print_state(target, state, shows_repeated=definition is BACK)
        else:
            record = client.command(definition.name, **payload)
            _print_result(target, record, form.format_result)

    parameters = _parameters(definition, form)
    target = inspect.Parameter("target", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([target, *parameters])  # type: ignore[attr-defined]
    return with_run_option(run)


def _parameters(definition: CommandDefinition[Any], form: TerminalForm) -> list[inspect.Parameter]:
    fields = list(definition.fields.values())
    if len(fields) > MAX_ARGUMENTS:
        names = ", ".join(each.name for each in fields)
        settings = Annotated[list[str], typer.Argument(help=f"NAME=VALUE: {names}.")]
        return [keyword_parameter("settings", settings, inspect.Parameter.empty)]
    parameters = []
    for each in fields:
        # The field that is typed most often comes first in a payload: it needs no option name.
        is_argument = each is fields[0]
        name = form.options.get(each.name, f"--{each.name.replace('_', '-')}")
        option = () if is_argument else (name,)
        make = typer.Argument if is_argument else typer.Option
        type_ = each.type | None if each.is_optional else each.type
        annotation = Annotated[type_, make(*option, help=each.help, **_limits(each))]  # type: ignore[valid-type]
        default = inspect.Parameter.empty if each.is_required else each.default
        parameters.append(keyword_parameter(each.name, annotation, default))
    if definition is BACK:
        info = typer.Option("--info", help="Only show how far back the run can go, and the cost.")
        parameters.append(keyword_parameter("info", Annotated[bool, info], None))
    return parameters


def _limits(payload_field: PayloadField) -> dict[str, Any]:
    names = {Least: "min", Most: "max"}
    limits = payload_field.limits
    return {names[type(each)]: each.value for each in limits if type(each) in names}


def _shows_rewind(target: RunOption, given: dict[str, Any]) -> bool:
    """Print how far back the run can go, if `--info` is given; return whether it was."""
    if len(given) > 1:
        raise ConfigError("give a number of steps, --to STEP or --info, not two of them")
    if "info" not in given:
        return False
    rewind = target.client().rewind()
    target.answer(rewind, _format_rewind(rewind))
    return True


@with_run_option
def run_command(
    target: RunOption,
    name: Annotated[str, typer.Argument(help="Name of the command; a wrong one lists all.")],
    settings: _Settings = None,
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


def _print_state(target: RunOption, state: dict[str, Any], *, shows_repeated: bool) -> None:
    """Print the state after a verb, or the id of the command if it takes longer."""
    # The server answers after 2 s at the latest. Then it sends the command's record, which has
    # no `state`, instead of the state of the run.
    if "state" in state:
        repeated = state.get("repeated") if shows_repeated else None
        line = "" if repeated is None else f"\n{repeated['text']}"
        target.answer(state, format_state(state) + line)
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
        raise ConfigError(
            f"expected a number, got {given!r}; write lr=0.01 or betas=[0.9,0.99]"
        ) from None
