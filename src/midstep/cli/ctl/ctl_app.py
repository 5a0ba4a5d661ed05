"""`midstep ctl`: control one live run and look into it from another terminal.

Here are the commands that look into the run, and the list of all commands with their groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from midstep.cli.ctl import breakpoint_commands, command_options, force_commands, watch_commands
from midstep.cli.ctl.run_option import RunOption, reword_error, with_run_option
from midstep.cli.output.screen import Screen, print_json
from midstep.cli.output.status_line import format_state
from midstep.cli.output.text_format import align_columns, format_number
from midstep.core.commands.catalog import COMMANDS
from midstep.core.errors import ConfigError, StorageError

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
def batch(
    target: RunOption,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the picture of the batch to this PNG file.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, help="Only this sample, at full resolution.")
    ] = None,
) -> None:
    """Show the last captured batch: step, loss, the samples with the highest losses, predictions.

    With --sample one sample, at full resolution.
    """
    client = target.client()
    if sample is not None:
        shown = client.batch_sample(sample)
        if save is not None:
            _check_images(shown)
            _save_picture(client.batch_sample(sample, picture=True), save)
        target.answer(shown, lambda screen: _print_sample(screen, shown, save))
        return
    captured = client.batch()
    if save is not None:
        _check_images(captured)
        _save_picture(client.batch_picture(etag=captured["etag"]), save)
    target.answer(captured, lambda screen: _print_batch(screen, captured, save))


def _check_images(captured: dict[str, Any]) -> None:
    if captured["kind"] != "images":
        raise ConfigError(
            f"this batch has no picture, because its samples are {captured['kind']}; "
            "use --json instead"
        )


def _save_picture(png: bytes, path: Path) -> None:
    try:
        path.write_bytes(png)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}; name another file with --save"
        ) from error


def _print_batch(screen: Screen, captured: dict[str, Any], saved: Path | None) -> None:
    shape, loss = captured["shape"][1:], captured["loss"]
    screen.print_line(f"batch {captured['step']}: {captured['count']} samples {shape}, loss {loss}")
    for row in _highest_losses(captured):
        screen.print_line("  " + "  ".join(f"{name} {value}" for name, value in row.items()))
    for words in (captured["loss_fact"], captured["loss_note"]):
        if words is not None:
            screen.print_line(words)
    if saved is not None:
        screen.print_line(f"picture in {saved}")


_OF_SAMPLE = {
    "id": "sample_id",
    "label": "label",
    "prediction": "prediction",
    "loss": "loss",
    "share of the loss": "loss_share",
}


def _print_sample(screen: Screen, sample: dict[str, Any], saved: Path | None) -> None:
    parts = [f"sample {sample['index']} of batch {sample['step']}: {sample['shape']}"]
    parts += [
        f"{name} {sample[field]}" for name, field in _OF_SAMPLE.items() if sample[field] is not None
    ]
    screen.print_line(", ".join(parts))
    screen.print_line(f"values {sample['low']} to {sample['high']}")
    if saved is not None:
        screen.print_line(f"picture in {saved}")


def _highest_losses(captured: dict[str, Any], count: int = 5) -> list[dict[str, Any]]:
    """What is known of the samples with the highest losses; not finite ones come first."""
    losses = [float(each) for each in captured["losses"] or []]
    order = sorted(range(len(losses)), key=lambda i: (math.isfinite(losses[i]), -losses[i]))
    columns = {
        "sample": captured["sample_ids"] or range(len(losses)),
        "label": captured["labels"],
        "prediction": captured["predictions"],
        "loss": [f"{each:.5g}" for each in losses],
        "share": [f"{float(each):.1%}" for each in captured["loss_shares"] or []],
    }
    known = {name: values for name, values in columns.items() if values}
    return [{name: values[i] for name, values in known.items()} for i in order[:count]]


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
        table.add_row(*map(Text, cells))  # as `Text`, square brackets are no markup
    return table


@with_run_option
def follow(target: RunOption) -> None:
    """Print the messages of the run as they arrive, one line of JSON each, until Ctrl-C."""
    for message in target.client().stream():
        print_json(message)


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
    ("batch", batch, "--save batch.png"),
    ("step-data", step_data, "layers"),
    ("scalars", scalars, "loss lr"),
    ("forces", force_commands.forces, "17 --json"),
    ("cosine", force_commands.cosine, "--source som_targets"),
    ("follow", follow, "| head -n 20"),
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
