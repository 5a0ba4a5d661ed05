"""`midstep runs rm`: delete the files that belong to a run, after a confirmation."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.output.terminal_escape import one_line
from midstep.cli.output.text_format import format_bytes
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, SaveDir, find_run
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.facts.deletion import DeletionPlan

MAX_NAMED_FILES = 20


@dataclass(frozen=True, kw_only=True)
class _RunToDelete:
    """A run that the user named, and what deleting it would remove."""

    directory: Path
    state: str
    live: bool
    plan: DeletionPlan


def remove(
    runs: Annotated[
        list[str], typer.Argument(help="Ids of runs or their starts, names, or directories.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted and kept.")
    ] = False,
    as_json: AsJson = False,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """Delete runs, after a confirmation. Files that midstep did not write are kept and listed."""
    from midstep.facts.deletion import delete_run

    to_delete = [_plan(run, save_dir) for run in runs]
    screen = Screen()
    if not as_json:
        for each in to_delete:
            _print_plan(screen, each)
    if dry_run:
        if as_json:
            print_json([_plan_json(each) for each in to_delete])
        return
    for each in to_delete:
        if each.live:
            raise ConfigError(
                f"{each.directory.name} is {each.state}; stop it first, for example with: "
                "midstep ctl stop"
            )
    if not yes and not _confirm(to_delete):
        screen.print_line("nothing was deleted")
        return
    deleted = [(each, delete_run(each.directory)) for each in to_delete]
    if as_json:
        rows = [{"directory": str(each.directory), **vars(result)} for each, result in deleted]
        print_json(rows)
        return
    for each, result in deleted:
        removed = f"{result.removed_files} files, {format_bytes(result.removed_bytes)}"
        name = one_line(each.directory.name)
        screen.print_line(f"deleted {name}: {removed}")
        for path in result.kept[:MAX_NAMED_FILES]:
            screen.print_line(f"  stays: {name}/{one_line(path)}")


def _plan(run: str, save_dir: Path) -> _RunToDelete:
    from midstep.facts.deletion import plan_deletion
    from midstep.facts.index.run_row import read_row

    directory = find_run(run, save_dir)
    # Deleting through a link would empty a folder outside the outputs folder.
    if directory.is_symlink():
        raise ConfigError(f"{directory} is a link; name the run directory itself")
    row = read_row(directory)
    return _RunToDelete(
        directory=directory, state=row.state, live=row.live, plan=plan_deletion(directory)
    )


def _print_plan(screen: Screen, each: _RunToDelete) -> None:
    plan = each.plan
    content = f"{len(plan.own)} files, {format_bytes(plan.bytes)}"
    screen.print_line(f"{one_line(each.directory.name)} ({each.state}): {content}")
    for path in plan.foreign[:MAX_NAMED_FILES]:
        screen.print_line(f"  not its own, stays: {one_line(path)}")
    if len(plan.foreign) > MAX_NAMED_FILES:
        screen.print_line(f"  and {len(plan.foreign) - MAX_NAMED_FILES} more that stay")


def _plan_json(each: _RunToDelete) -> dict[str, Any]:
    return {
        "directory": str(each.directory),
        "state": each.state,
        "bytes": each.plan.bytes,
        "files": [file.path for file in each.plan.own],
        "kept": each.plan.foreign,
    }


def _confirm(to_delete: list[_RunToDelete]) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError(
            "stdin is not a terminal, so nobody can confirm; pass --yes to delete without asking"
        )
    size = format_bytes(sum(each.plan.bytes for each in to_delete))
    name = to_delete[0].directory.name if len(to_delete) == 1 else f"{len(to_delete)} runs"
    return typer.confirm(f"Delete {one_line(name)} ({size}) for good?")
