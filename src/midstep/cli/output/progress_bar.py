"""A progress bar for work in named stages."""

from __future__ import annotations

from typing import Any, Self

from midstep.cli.output.screen import Screen


class ProgressBar:
    """A progress bar in a terminal; elsewhere one line for each finished stage."""

    def __init__(self, screen: Screen, *, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._screen, self._quiet = screen, quiet
        self._bar = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=screen,
            disable=quiet or not screen.is_terminal,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, progress: Any) -> None:
        """Show a progress with the fields stage, done, total and reused."""
        name = progress.stage
        if self._bar.disable:
            if progress.done == progress.total and not self._quiet:
                self._screen.print_line(f"{name}{' (was done)' if progress.reused else ''}")
            return
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=progress.total)
        task = self._bar.tasks[self._tasks[name]]
        # The last progress of a stage is "1 of 1", so the bar keeps the total it had.
        finished = progress.done == progress.total
        total = max(progress.total, int(task.total or 1))
        done = total if finished else progress.done
        self._bar.update(self._tasks[name], total=total, completed=done)
