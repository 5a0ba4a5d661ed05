"""`midstep runs rm`: delete runs, only what is their own, and only when asked twice."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.runs import RUNS, SaveDir, find_run
from midstep.cli.screen import Screen
from midstep.cli.wording import bytes_words
from midstep.core import strict_json
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.facts.deletion import Deletion

__all__ = ["remove"]

MOST_NAMED = 20


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """A run that is to go."""

    directory: Path
    state: str
    live: bool
    plan: Deletion


def remove(
    runs: Annotated[list[str], typer.Argument(help="Ids, their starts, or directories.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would go and what would stay; no more.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")] = False,
    save_dir: SaveDir = RUNS,
) -> None:
    """Delete runs. Files that are not a run's own stay where they are, and are named.

    Examples: [bold]midstep runs rm k3v9 --dry-run[/bold] ·
    [bold]midstep runs rm run_a run_b --yes[/bold]
    """
    from midstep.facts.deletion import delete_run

    chosen = [_choose(run, save_dir) for run in runs]
    screen = Screen()
    if not as_json:
        for each in chosen:
            _tell_plan(screen, each)
    if dry_run:
        if as_json:
            typer.echo(strict_json.dumps([_plan_dict(each) for each in chosen]))
        return
    _refuse_live(chosen)
    if not yes and not _confirmed(chosen):
        screen.say("nothing was deleted")
        return
    deleted = [(each, delete_run(each.directory)) for each in chosen]
    if as_json:
        told = [{"directory": str(each.directory), **vars(found)} for each, found in deleted]
        typer.echo(strict_json.dumps(told))
        return
    for each, found in deleted:
        gone = f"{found.removed_files} files, {bytes_words(found.removed_bytes)}"
        screen.say(f"deleted {each.directory.name}: {gone}")
        for path in found.kept[:MOST_NAMED]:
            screen.say(f"  stays: {each.directory.name}/{path}")


def _choose(run: str, save_dir: Path) -> _Chosen:
    from midstep.facts.deletion import plan_deletion
    from midstep.facts.run_row import read_row

    directory = find_run(run, save_dir)
    if directory.is_symlink():
        raise ConfigError(f"{directory} is a link; name the run directory itself")
    row = read_row(directory)
    return _Chosen(
        directory=directory, state=row.state, live=row.live, plan=plan_deletion(directory)
    )


def _tell_plan(screen: Screen, each: _Chosen) -> None:
    plan = each.plan
    what = f"{len(plan.own)} files, {bytes_words(plan.bytes)}"
    screen.say(f"{each.directory.name} ({each.state}): {what}")
    for path in plan.foreign[:MOST_NAMED]:
        screen.say(f"  not its own, stays: {path}")
    if len(plan.foreign) > MOST_NAMED:
        screen.say(f"  and {len(plan.foreign) - MOST_NAMED} more that stay")


def _plan_dict(each: _Chosen) -> dict[str, Any]:
    return {
        "directory": str(each.directory),
        "state": each.state,
        "bytes": each.plan.bytes,
        "files": [file.path for file in each.plan.own],
        "kept": each.plan.foreign,
    }


def _refuse_live(chosen: list[_Chosen]) -> None:
    for each in chosen:
        if each.live:
            raise ConfigError(
                f"{each.directory.name} is {each.state}; stop it first, for example with: "
                "midstep ctl stop"
            )


def _confirmed(chosen: list[_Chosen]) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to ask; say --yes to delete without being asked")
    size = bytes_words(sum(each.plan.bytes for each in chosen))
    what = chosen[0].directory.name if len(chosen) == 1 else f"{len(chosen)} runs"
    return typer.confirm(f"Delete {what} ({size}) for good?")
