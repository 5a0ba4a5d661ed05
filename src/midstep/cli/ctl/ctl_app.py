"""`midstep ctl`: control one live run and look into it from another terminal.

Here are the commands that look into the run, and the list of all commands with their groups.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from midstep.cli.ctl import (
    batch_command,
    breakpoint_commands,
    command_options,
    force_commands,
    watch_commands,
    why_command,
)
from midstep.cli.ctl.run_option import RunOption, reword_error, with_run_option
from midstep.cli.output.screen import print_json
from midstep.cli.output.status_line import format_state
from midstep.cli.output.text_format import align_columns, format_number
from midstep.client.run_finder import SOCKET_URL
from midstep.core.commands.catalog import COMMANDS
from midstep.core.errors import ConfigError

MOVE, LOOK, CHANGE = "Move the run", "Look into the run", "Change, save and load"
app = typer.Typer(
    help="Control one live run from another terminal: everything that a button of the page does.",
    epilog=(
        "Examples: [bold]midstep ctl pause[/bold] · [bold]midstep ctl step 5[/bold] · "
        "[bold]midstep ctl back 2[/bold] · [bold]midstep ctl batch --save b.png[/bold] · "
        "[bold]midstep ctl break add 'loss > 0.05'[/bold] · [bold]midstep ctl state --json[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@with_run_option
def state(target: RunOption) -> None:
    """Show the state: step, loss, epoch, learning rate, speed, and why the run is paused."""
    current = target.client().state()
    target.answer(current, format_state(current, full=True))


@with_run_option
def step_data(
    target: RunOption,
    key: Annotated[
        str | None, typer.Argument(help="Which entry to show; lists the keys if left out.")
    ] = None,
) -> None:
    """Show what hooks captured in the last shown step."""
    client = target.client()
    if key is None:
        keys = client.step_data()
        target.answer(keys, ", ".join(keys) or "no hook captured anything in this step")
        return
    unknown = (
        f"nothing called {key} was captured in this step; `midstep ctl step-data` lists the keys"
    )
    with reword_error("no_step_data", unknown):
        entry = client.step_data(key)
    target.answer(entry, lambda screen: screen.print_json(data=entry["data"]))


@with_run_option
def scalars(
    target: RunOption,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of series; all if left out.")
    ] = None,
) -> None:
    """Show the newest value of each logged series. --json gives the series."""
    series = target.client().scalars(names or None)
    rows = [
        (name, format_number(each["high"][-1]), f"{each['step'][-1]:,}")
        for name, each in series.items()
        if each["step"]
    ]
    lines = align_columns([("name", "value", "step"), *rows], right=(1, 2))
    target.answer(series, "\n".join(lines) if rows else "nothing was logged yet")


@with_run_option
def command_log(target: RunOption) -> None:
    """Show the command log: who requested what, and how it ended."""
    records = target.client().commands()
    target.answer(records, lambda screen: screen.print(_log_table(records)))


def _log_table(records: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("time", "who", "command", "status", "step", "reason"):
        table.add_column(column)
    for each in records:
        time = datetime.fromtimestamp(each["submitted_at"], UTC).astimezone()
        settings = " ".join(f"{key}={value}" for key, value in each["payload"].items())
        cells = (
            f"{time:%H:%M:%S}",
            each["who"],
            f"{each['command']} {settings}".strip(),
            each["status"],
            "" if each["step"] is None else f"{each['step']:,}",
            each["reason"] or "",
        )
        table.add_row(*map(Text, cells))  # as `Text`, square brackets are not markup
    return table


@with_run_option
def follow(target: RunOption) -> None:
    """Print the messages of the run as they arrive, one line of JSON each, until Ctrl-C."""
    for message in target.client().stream():
        print_json(message)


@with_run_option
def link(target: RunOption) -> None:
    """Print the link of the run's page, which contains its token: do not share it."""
    client = target.client()
    if client.url == SOCKET_URL:
        raise ConfigError("this run serves no page of its own; `midstep serve` shows it on one")
    address = f"{client.url}/#token={client.transport.token}"
    target.answer({"url": address}, address)


def _add_commands(panel: str, *commands: tuple[str, Callable[..., None], str]) -> None:
    """Add commands, each with its name and the arguments of its example, to one group of help."""
    for name, function, arguments in commands:
        example = f"Example: midstep ctl {name} {arguments}".rstrip()
        app.command(name, epilog=example, rich_help_panel=panel)(function)


# The help lists groups and commands in this order: first what is typed most often.
for definition in COMMANDS.values():
    if definition.verb:
        command_options.add_command(app, definition, MOVE)
_add_commands(
    LOOK,
    ("state", state, "--json"),
    ("why", why_command.why, ""),
    ("batch", batch_command.batch, "--save batch.png"),
    ("step-data", step_data, "layers"),
    ("scalars", scalars, "loss lr"),
    ("forces", force_commands.forces, "17 --json"),
    ("cosine", force_commands.cosine, "--source som_targets"),
    ("follow", follow, "| head -n 20"),
    ("link", link, ""),
)
for definition in COMMANDS.values():
    if not definition.verb:
        command_options.add_command(app, definition, CHANGE)
_add_commands(
    "Any command",
    ("command", command_options.run_command, "test_now"),
    ("log", command_log, ""),
    ("cancel", command_options.cancel, "a6e1c0"),
)
app.add_typer(breakpoint_commands.app, name="break", rich_help_panel=MOVE)
app.add_typer(watch_commands.app, name="watch", rich_help_panel=LOOK)
