"""A small run on a real server, for the tests of server, security and client."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.control import Command, DebugController
from midstep.core.errors import ConfigError
from midstep.core.files.user_state import root_file
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.debug import command_routes
from midstep.server.runs.run_table import RunTable
from midstep.server.transport.ports import bind
from midstep.server.transport.server_thread import ServerThread

if TYPE_CHECKING:
    from midstep.server.root_server import RootServer
    from midstep.session import Run

PATIENCE_S = 60.0
"""Only a test that fails waits this long."""


@dataclass
class Answer:
    """Status, headers (lower case) and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A run with a loop of its own, on a server of its own."""

    run: Run
    runs: RunTable
    tokens: Tokens
    app: Any
    url: str
    port: int
    thread: ServerThread | RootServer
    losses: list[float] = field(default_factory=list)

    @property
    def controller(self) -> DebugController:
        return self.run.controller

    @property
    def debug(self) -> str:
        return f"/api/v1/runs/{self.run.run_id}/debug"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "control",
        headers: Mapping[str, str] | None = None,
        source: str = "127.0.0.1",
    ) -> Answer:
        """One request; `body` is sent as JSON, or as it stands when it is bytes."""
        made = {"Authorization": f"Bearer {self.secret(token)}"} if token else {}
        if method not in ("GET", "HEAD"):
            made["Content-Type"] = "application/json"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S, source_address=(source, 0)
        )
        try:
            connection.request(method, path, body=data, headers={**made, **(headers or {})})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def secret(self, token: str) -> str:
        named = {"control": self.tokens.control, "viewer": self.tokens.viewer}
        return named.get(token, token)

    def raw(self, data: bytes) -> socket.socket:
        """A connection that has sent exactly `data`."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        made.sendall(data)
        return made


def keep_port(outputs: Path) -> int:
    """Let the servers of a folder prefer a free port that nobody else is likely to take."""
    for _ in range(100):
        # Below those that the kernel gives out, beside those that midstep tries by itself.
        port = random.SystemRandom().randrange(20_000, 30_000)
        with suppress(ConfigError):
            bind("127.0.0.1", port).close()
            path = root_file(outputs, "port")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"port": port}))
            return port
    raise AssertionError("no port is free")


def train(run: Run, stop_after: int = 10**9) -> None:
    """A loop with the two call sites; its batches are small pictures."""
    import torch

    controller = run.controller
    if not controller.boundary.enter():
        return
    for step in range(stop_after):
        batch = torch.full((4, 64), (step % 10) / 10)
        loss = 1.0 / (step + 1)
        controller.capture_step_data("ids", [step])
        controller.capture_batch(
            batch, loss, step, labels=[0, 1, 2, 3], sample_ids=[4 * step + i for i in range(4)]
        )
        run.log(loss=loss)
        if not controller.wait_if_paused():
            return


IMPATIENT_S = command_routes.EFFECT_WAIT_S
"""How soon an answer says by itself that the effect is still to come."""


@contextmanager
def _effects_awaited() -> Iterator[None]:
    """Answers come with their effect, however busy the machine is; unless a test set the time."""
    if command_routes.EFFECT_WAIT_S != IMPATIENT_S:
        yield
        return
    command_routes.EFFECT_WAIT_S = PATIENCE_S / 2
    try:
        yield
    finally:
        command_routes.EFFECT_WAIT_S = IMPATIENT_S


@contextmanager
def serving(
    folder: Path,
    *,
    paused: bool = True,
    loop: Callable[[Run], None] | None = train,
    datasets: DataRoots | None = None,
    **guard: Any,
) -> Iterator[Served]:
    """A served run whose loop stands at step 0, unless told otherwise."""
    from midstep.session import Run

    with _effects_awaited(), Run(name="small", save_dir=folder, on_error="raise") as run:
        runs, tokens = RunTable(), Tokens.fresh()
        runs.add(run)
        app = create_app(runs, guard=GuardConfig(tokens=tokens, **guard), datasets=datasets)
        server = ServerThread(app)
        url = server.start()
        made = Served(run, runs, tokens, app, url, int(url.rsplit(":", 1)[1]), server)
        try:
            with _training(run, loop, paused=paused):
                yield made
        finally:
            server.close()


@contextmanager
def serving_root(
    folder: Path,
    *,
    paused: bool = True,
    loop: Callable[[Run], None] | None = train,
    **config: Any,
) -> Iterator[Served]:
    """The same run, on its own socket, behind a server over the whole folder."""
    from midstep.live.run_socket import serve_on_socket
    from midstep.server.root_server import RootServer, RootServerConfig
    from midstep.session import Run

    with (
        _effects_awaited(),
        Run(name="small", save_dir=folder / "runs", on_error="raise") as run,
        serve_on_socket(run),
        RootServer(RootServerConfig(outputs=folder, port=0, **config)) as root,
        _training(run, loop, paused=paused),
    ):
        tokens = root.tokens.now
        port = int(root.base.rsplit(":", 1)[1])
        made = Served(run, root.app.state.runs, tokens, root.app, root.base, port, root)
        # The first knock starts the run's own server: it belongs to the fixture, not to a test.
        assert made.ask("GET", f"{made.debug}/state").status == 200
        yield made


@contextmanager
def _training(run: Run, loop: Callable[[Run], None] | None, *, paused: bool) -> Iterator[None]:
    worker = _worker(run, loop) if loop is not None else None
    try:
        if worker is not None:
            parked = run.controller.submit(Command(name="pause")) if paused else None
            worker.start()
            if parked is not None:
                parked.result(PATIENCE_S)
        yield
    finally:
        run.controller.stop()
        if worker is not None:
            worker.join(PATIENCE_S)


def _worker(run: Run, loop: Callable[[Run], None]) -> threading.Thread:
    return threading.Thread(target=loop, args=(run,), name="training")
