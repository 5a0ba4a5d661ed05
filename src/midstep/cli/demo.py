"""`midstep demo`: a real training, live on a page, from one command."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.keys import Keys
from midstep.cli.screen import Screen
from midstep.cli.status import Status
from midstep.cli.wording import duration_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midstep.control import DebugController
    from midstep.control.commands import Who
    from midstep.loops.demo import Demo, DemoResult
    from midstep.session import Run

__all__ = ["demo"]


def demo(
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train; 10,000 if not given.")
    ] = None,
    start_paused: Annotated[
        bool, typer.Option("--start-paused", help="Stand before the first step until resumed.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Show the run on a page.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Of the page; the last one used if not given, 0 for any."
        ),
    ] = None,
    save_dir: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("outputs/runs"),
    name: Annotated[str, typer.Option(help="Name of the run.")] = "demo",
    run_name: Annotated[
        str | None, typer.Option(help="Exact directory under --save-dir, instead of time and name.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the weights and the order of the digits.")] = 0,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in your browser.")
    ] = False,
) -> None:
    """Train a small autoencoder on 5,000 real digits, to be paused, stepped and looked into.

    Keys in the terminal: [bold]space[/bold] pauses and resumes, [bold]s[/bold] makes one step,
    [bold]q[/bold] stops. At the end the page stays open until [bold]q[/bold]; without a terminal
    the command ends by itself.

    Examples: [bold]midstep demo[/bold] · [bold]midstep demo --start-paused --open[/bold] ·
    [bold]midstep demo --steps 500 --no-serve[/bold]
    """
    from midstep.live.signals import GracefulStop

    seat = Seat(Screen())
    with GracefulStop(seat.stop, seat.restore_terminal):
        if serve:
            _check_page(port, save_dir)
        training = _prepare(steps, seed)
        with _run_of(training, name, run_name, save_dir) as run:
            seat.take(run.controller, paused=start_paused)
            with _page(run, serve, port, save_dir, open_page) as url:
                _drive(training, run, seat, url)


def _prepare(steps: int | None, seed: int) -> Demo:
    """Everything that can be wrong with settings and data is found before a run is begun."""
    import torch

    from midstep.loops.demo import Demo, DemoConfig

    # The model is too small to share: a second thread gains nothing, and where another training
    # uses the cores the two slow each other down tenfold. It leaves a core to the page, too.
    torch.set_num_threads(1)
    given = {} if steps is None else {"steps": steps}
    return Demo(DemoConfig(seed=seed, **given))


def _check_page(port: int | None, save_dir: Path) -> None:
    """What would refuse the page is found before torch is loaded and a run is begun.

    A taken port, which `serve` binds again, and a place for the token that cannot be written.
    """
    from midstep.live.mode import current_mode
    from midstep.server.ports import bind
    from midstep.server.tokens import Tokens

    if current_mode() != "live":
        return
    if port:
        bind("127.0.0.1", port).close()
    Tokens.for_root(save_dir)


def _run_of(training: Demo, name: str, run_name: str | None, save_dir: Path) -> Run:
    from midstep.session import Run

    return Run(
        name=name,
        save_dir=save_dir,
        run_name=run_name,
        config=training.settings,
        seed=training.config.seed,
        total_steps=training.config.steps,
        model=training.model,
    )


@contextlib.contextmanager
def _page(
    run: Run, wanted: bool, port: int | None, save_dir: Path, open_browser: bool
) -> Iterator[str | None]:
    """The address of the page while it is served; None when it is not wanted."""
    if not wanted:
        yield None
        return
    from midstep.live import serve

    with serve(run, port=port, save_dir=save_dir, open_browser=open_browser) as served:
        yield served.url


def _drive(training: Demo, run: Run, seat: Seat, url: str | None) -> None:
    """Train, tell how it ended, and keep the page open until `q` if there is a keyboard."""
    screen, controller = seat.screen, run.controller
    screen.say(f"run   {_short(run.dir)}")
    if url is not None:
        screen.say(f"page  {url}")
    with Keys(seat.press) as keys:
        seat.keys = keys
        with Status(controller.get_state, controller.subscribe, screen, keys=keys.active) as status:
            seat.status = status
            result = training.train(run)
            seat.status = None
        end = "stopped" if result.stopped else "finished"
        run.finish(end, train_loss=result.loss, val_loss=result.validation_loss)
        _summary(screen, run, result, end)
        if url is not None and keys.active and not seat.leaving.is_set():
            screen.say("the page stays open; press q to leave", style="dim")
            seat.leaving.wait()


def _summary(screen: Screen, run: Run, result: DemoResult, end: str) -> None:
    """How it ended, and where everything is."""
    loss = "" if result.loss is None else f"loss {result.loss:.5g}, "
    screen.say(
        f"{end} after {result.steps:,} steps in {duration_words(result.duration_s)}: "
        f"{loss}validation loss {result.validation_loss:.5g}",
        style="bold",
    )
    directory = _short(run.dir)
    screen.say(f"run   {directory}")
    screen.say(f"facts {directory / 'facts'}")
    screen.say(f"again {_program()} runs show {directory}")


def _program() -> str:
    """How this program is called from here, also where no environment is activated."""
    if shutil.which("midstep") is not None:
        return "midstep"
    called = Path(sys.argv[0])
    if called.name == "midstep":
        return str(_short(called.absolute()))
    return f"{_short(Path(sys.executable))} -m midstep.cli"


def _short(path: Path) -> Path:
    """`path` as the user would type it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


class Seat:
    """Who sits at the terminal: keys and signals become commands of the run.

    Args:
        screen: where answers are shown.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.leaving = threading.Event()
        """Set once the user wants out."""
        self.keys: Keys | None = None
        self.status: Status | None = None
        self._controller: DebugController | None = None

    def take(self, controller: DebugController, *, paused: bool) -> None:
        """Sit down at a run; a wish to leave that came before it is passed on now."""
        self._controller = controller
        if paused:
            self._ask(controller, "pause", who="cli")
        if self.leaving.is_set():
            self._ask(controller, "stop", who="system")

    def stop(self, cause: str) -> None:
        """Bring the run to its end at the next boundary, and leave then."""
        self.leaving.set()
        controller = self._controller
        if controller is not None:
            self._note(f"{cause}: stopping at the next boundary; once more ends at once")
            self._ask(controller, "stop", who="system")

    def restore_terminal(self) -> None:
        """Right before the process ends at a second signal."""
        if self.keys is not None:
            self.keys.restore()
        self.screen.show_cursor(show=True)

    def press(self, key: str) -> None:
        """What a key means."""
        controller = self._controller
        if controller is None:
            return
        if key == " ":
            self._ask(controller, "resume" if controller.is_paused else "pause")
        elif key == "s":
            self._ask(controller, "step")
        elif key == "q":
            self.leaving.set()
            self._ask(controller, "stop")

    def _ask(self, controller: DebugController, name: str, who: Who = "terminal") -> None:
        """Submit a command; nothing waits for the answer, a refusal is shown."""
        from midstep.control import Command

        future = controller.submit(Command(name=name, who=who))
        future.add_done_callback(self._show_refusal)

    def _show_refusal(self, future: Future[Any]) -> None:
        refusal = future.exception()
        if refusal is not None:
            self._note(str(refusal))

    def _note(self, text: str) -> None:
        status = self.status
        if status is not None:
            status.note(text)
