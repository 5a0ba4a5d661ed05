"""`midstep ctl`: the twins of the page's buttons."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from midstep.cli import breakpoints, forces, rewinding, watches
from midstep.cli.screen import Screen
from midstep.cli.status import state_words
from midstep.cli.target import Target, in_terminal_words, on_target
from midstep.cli.wording import aligned, number_words
from midstep.core.errors import ConfigError, StorageError

__all__ = ["app"]

app = typer.Typer(
    help="Control a live run from another terminal: everything a button of the page does.",
    epilog=(
        "Examples: [bold]midstep ctl pause[/bold] · [bold]midstep ctl step 5[/bold] · "
        "[bold]midstep ctl run-until 1000[/bold] · [bold]midstep ctl batch --save b.png[/bold] · "
        "[bold]midstep ctl break add 'loss > 0.05'[/bold] · [bold]midstep ctl state --json[/bold]"
    ),
    no_args_is_help=True,
)
app.add_typer(breakpoints.app, name="break")
app.add_typer(watches.app, name="watch")
app.command("forces", epilog="Example: midstep ctl forces --top 5")(forces.forces)
app.command("force", epilog="Example: midstep ctl force 17 --json")(forces.force)
app.command("back", epilog="Example: midstep ctl back 5")(rewinding.back)
app.command("rewind", epilog="Example: midstep ctl rewind")(rewinding.rewind)
app.command("hparams", epilog="Example: midstep ctl hparams lr=0.01")(rewinding.hparams)
app.command("certify", epilog="Example: midstep ctl certify 5")(rewinding.certify)
app.command("save", epilog="Example: midstep ctl save")(rewinding.save)
app.command("load", epilog="Example: midstep ctl load 500")(rewinding.load)
app.command("reset", epilog="Example: midstep ctl reset")(rewinding.reset)
app.command("run", epilog="Example: midstep ctl run test_now")(rewinding.run_command)
app.command("cosine", epilog="Example: midstep ctl cosine --source som_targets")(forces.cosine)


def _tell(target: Target, state: Any) -> None:
    """The state after a verb; a verb that takes longer has only been accepted so far."""
    late = "state" not in state
    words = (
        f"accepted as {state.get('id', 'a command')}, not done yet" if late else state_words(state)
    )
    target.answer(state, words)


@app.command("pause", epilog="Example: midstep ctl pause")
@on_target
def pause(target: Target) -> None:
    """Park the run at its next step boundary."""
    _tell(target, target.client().pause())


@app.command("resume", epilog="Example: midstep ctl resume --run demo")
@on_target
def resume(target: Target) -> None:
    """Let the run go on."""
    _tell(target, target.client().resume())


@app.command("step", epilog="Example: midstep ctl step 5")
@on_target
def step(
    target: Target,
    n: Annotated[int, typer.Argument(min=1, help="Steps to let pass.")] = 1,
) -> None:
    """Let N steps pass, then park again; the run must be paused."""
    _tell(target, target.client().step(n))


@app.command("run-until", epilog="Example: midstep ctl run-until 1000")
@on_target
def run_until(
    target: Target,
    step: Annotated[int, typer.Argument(min=0, help="Finished steps to park at.")],
) -> None:
    """Go on, and park when STEP steps are finished."""
    _tell(target, target.client().run_until(step))


@app.command("stop", epilog="Example: midstep ctl stop")
@on_target
def stop(target: Target) -> None:
    """End the training at its next step boundary."""
    _tell(target, target.client().stop())


@app.command("state", epilog="Example: midstep ctl state --json")
@on_target
def state(target: Target) -> None:
    """Show the state: step, loss, epoch, learning rate, speed, and why it stands if it does."""
    found = target.client().state()
    target.answer(found, state_words(found, full=True))


@app.command("batch", epilog="Example: midstep ctl batch --save batch.png")
@on_target
def batch(
    target: Target,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the picture of the batch to this PNG file.")
    ] = None,
) -> None:
    """Show the last captured batch: step, loss, the samples with the highest losses."""
    found = target.client().batch()
    if save is not None:
        _save_picture(found, save)
    target.answer(found, lambda screen: _show_batch(screen, found, save))


def _save_picture(found: dict[str, Any], path: Path) -> None:
    if not found.get("png"):
        raise ConfigError(f"this batch has no picture, it is {found['kind']}; use --json instead")
    try:
        path.write_bytes(base64.b64decode(found["png"]))
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}; name another file with --save"
        ) from error


def _show_batch(screen: Screen, found: dict[str, Any], saved: Path | None) -> None:
    loss = found["loss"]
    screen.say(f"batch {found['step']}: {found['count']} samples {found['shape'][1:]}, loss {loss}")
    for sample_id, label, sample_loss in _worst(found):
        screen.say(f"  sample {sample_id}  label {label}  loss {sample_loss:.5g}")
    if saved is not None:
        screen.say(f"picture in {saved}")


def _worst(found: dict[str, Any], count: int = 5) -> list[tuple[Any, Any, float]]:
    """Id, label and loss of the samples with the highest losses."""
    losses = [each for each in found.get("losses") or [] if isinstance(each, int | float)]
    blank = [""] * len(losses)
    rows = zip(found.get("sample_ids") or blank, found.get("labels") or blank, losses, strict=False)
    return sorted(rows, key=lambda row: -row[2])[:count]


@app.command("data", epilog="Example: midstep ctl data layers")
@on_target
def step_data(
    target: Target,
    key: Annotated[
        str | None, typer.Argument(help="Which entry; lists them when left out.")
    ] = None,
) -> None:
    """Show what hooks pushed in the last captured step."""
    client = target.client()
    if key is None:
        keys = client.step_data()
        target.answer(keys, ", ".join(keys) or "nothing was pushed in this step")
        return
    unknown = f"nothing called {key} was captured in this step; `midstep ctl data` lists the keys"
    with in_terminal_words("no_step_data", unknown):
        found = client.step_data(key)
    target.answer(found, lambda screen: screen.print_json(data=found["data"]))


@app.command("scalars", epilog="Example: midstep ctl scalars loss lr")
@on_target
def scalars(
    target: Target,
    names: Annotated[
        list[str] | None, typer.Argument(help="Which series; all when left out.")
    ] = None,
) -> None:
    """Show the newest value of each logged series; --json gives the series."""
    found = target.client().scalars(names or None)

    rows = [
        (name, number_words(series["high"][-1]), f"{series['step'][-1]:,}")
        for name, series in found.items()
        if series["step"]
    ]
    lines = aligned([("name", "value", "step"), *rows], right=(1, 2))
    target.answer(found, "\n".join(lines) if rows else "nothing was logged yet")


@app.command("commands", epilog="Example: midstep ctl commands")
@on_target
def commands(target: Target) -> None:
    """Show the command log: who asked for what, and what became of it."""
    found = target.client().commands()
    target.answer(found, lambda screen: screen.print(_command_table(found)))


@app.command("cancel", epilog="Example: midstep ctl cancel a6e1c0")
@on_target
def cancel(
    target: Target,
    command_id: Annotated[str, typer.Argument(help="Id of the command, as --json shows it.")],
) -> None:
    """Take a waiting command back, or ask a running one to end."""
    found = target.client().cancel(command_id)
    target.answer(found, f"{found['command']} {found['status']}")


def _command_table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("time", "who", "command", "status", "step", "reason"):
        table.add_column(column)
    for each in found:
        at = datetime.fromtimestamp(each["submitted_at"], UTC).astimezone()
        settings = " ".join(f"{key}={value}" for key, value in each["payload"].items())
        step = "" if each["step"] is None else f"{each['step']:,}"
        asked = f"{each['command']} {settings}".strip()
        table.add_row(
            f"{at:%H:%M:%S}", each["who"], asked, each["status"], step, each["reason"] or ""
        )
    return table


@app.command("runs", epilog="Example: midstep ctl runs")
@on_target
def live_runs(target: Target) -> None:
    """Show the runs that the server knows."""
    found = target.client().runs()

    def show(screen: Screen) -> None:
        for run in found:
            screen.say(f"{run['id']}  {run['name']}  {run['state']}  step {run['step']:,}")

    target.answer(found, show)


@app.command("follow", epilog="Example: midstep ctl follow | head -n 20")
@on_target
def follow(target: Target) -> None:
    """Print the run's messages as they come, one line of JSON each, until Ctrl-C."""
    from midstep.core import strict_json

    for message in target.client().stream():
        typer.echo(strict_json.dumps(message))
