"""A server over all runs of an outputs folder: stored ones from facts, live ones by forwarding."""

from __future__ import annotations

import errno
import socket
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from midstep.core.errors import ConfigError, MidstepError
from midstep.facts.index.run_index import RunIndex
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import KeptTokens, Tokens
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.recipes.launcher import Launcher
from midstep.server.runs.run_catalog import RootCatalog
from midstep.server.runs.run_table import ServedRuns
from midstep.server.transport.ports import BACKLOG, bind_for_root
from midstep.server.transport.server_thread import ServerThread

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
LONGEST_UDS_BYTES = 103


@dataclass(frozen=True, kw_only=True)
class RootServerConfig:
    """What to serve, and to whom."""

    outputs: Path
    """The folder that holds runs, at most three levels below; made where there is none yet."""
    port: int | None = None
    """None: the last one used for this folder, else the first free of a range."""
    host: str = "127.0.0.1"
    """Only this machine can connect by default."""
    allowed_hosts: tuple[str, ...] = ()
    """Exact `Host` values under which a wider bind answers, such as `node7:8765`."""
    uds: Path | None = None
    """Serve on this Unix socket instead of a port."""
    read_only: bool = False
    """Show everything, change nothing."""
    new_token: bool = False
    """Replace the tokens of the folder; old links stop working, in its live runs too."""
    data: tuple[Path, ...] = ()
    """Folders with embedding datasets."""

    def __post_init__(self) -> None:
        can_be_made = not (self.read_only or self.outputs.exists())
        if not (self.outputs.is_dir() or (can_be_made and self.outputs.parent.is_dir())):
            raise ConfigError(f"{self.outputs} is not a folder; name the one your runs are in")
        if self.host not in LOOPBACK and not self.allowed_hosts:
            raise ConfigError(
                f"host {self.host!r} lets other machines in; say under which names with "
                "--allow-host, for example --allow-host node7:8765, or leave --host out"
            )
        if self.uds is not None and (self.port is not None or self.host != "127.0.0.1"):
            raise ConfigError("--uds serves on a Unix socket; leave --port and --host out")
        missing = [str(folder) for folder in self.data if not folder.is_dir()]
        if missing:
            raise ConfigError(f"--data {missing[0]} is not a folder")


class RootServer:
    """Serves until closed. What can be refused is refused before anything is bound.

    Args:
        config: what to serve.
    """

    def __init__(self, config: RootServerConfig) -> None:
        self.config = config
        if not config.outputs.is_dir():  # somebody begins here, with New run
            _make_folder(config.outputs)
        if config.new_token:
            Tokens.for_root(config.outputs, new=True)
        self.tokens = KeptTokens(config.outputs)
        self._index = RunIndex(config.outputs)
        self._listening = self._bind()
        catalog = self._catalog = RootCatalog(self._index, can_delete=not config.read_only)
        self.launcher = None if config.read_only else Launcher(save_dir_of(config.outputs))
        guard = GuardConfig(
            tokens=self.tokens, allowed_hosts=config.allowed_hosts, read_only=config.read_only
        )
        self.app = create_app(
            ServedRuns(catalog),
            guard=guard,
            datasets=DataRoots(*config.data),
            catalog=catalog,
            launcher=self.launcher,
            forward=catalog,
        )
        self._thread = ServerThread(self.app, listening=self._listening)
        self._looking = threading.Thread(target=self._look_first, name="first look")
        self.base = self._base()
        """Its address, without a token."""

    def _bind(self) -> socket.socket:
        config = self.config
        if config.uds is not None:
            return bind_uds(config.uds)
        return bind_for_root(config.outputs, host=config.host, port=config.port)

    def _base(self) -> str:
        named = self.config.allowed_hosts
        return f"http://{named[0]}" if named and self.config.uds is None else self._thread.url

    @property
    def url(self) -> str:
        """The page, with the token that controls; only looks where the server is read-only."""
        secret = self.tokens.viewer if self.config.read_only else self.tokens.control
        return f"{self.base}/#token={secret}"

    @property
    def viewer_url(self) -> str:
        """The page, with the token that only looks."""
        return f"{self.base}/#token={self.tokens.viewer}"

    def start(self) -> Self:
        """Serve; returns once requests are answered."""
        try:
            self._looking.start()
            self._thread.start()
        except BaseException:
            self.close()
            raise
        return self

    def _look_first(self) -> None:
        """The first look at a folder of many runs takes longest: begun before anybody asks."""
        with suppress(MidstepError, OSError):  # whoever asks for the list is told
            self._catalog.refresh()

    def close(self) -> None:
        """End streams and thread, free the port; runs that were started go on."""
        self._thread.close()
        if self._looking.is_alive():
            self._looking.join()
        if self.launcher is not None:
            self.launcher.close()
        if self.config.uds is not None:
            with suppress(OSError):  # somebody has removed it
                self.config.uds.unlink()
        self._index.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def save_dir_of(outputs: Path) -> Path:
    """Where new runs go: `outputs/runs`, or the folder itself where that holds the runs.

    >>> save_dir_of(Path("outputs")).as_posix(), save_dir_of(Path("outputs/runs")).as_posix()
    ('outputs/runs', 'outputs/runs')
    """
    return outputs if outputs.name == "runs" else outputs / "runs"


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror or error}") from None


def bind_uds(path: Path) -> socket.socket:
    """A listening Unix socket that only this user can connect to; a dead one is replaced."""
    if len(str(path.absolute()).encode()) > LONGEST_UDS_BYTES:
        raise ConfigError(f"--uds {path} is too long for a socket; choose a shorter path")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        made.bind(str(path))
        path.chmod(0o600)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        taken = error.errno == errno.EADDRINUSE
        why = "something else is there" if taken else error.strerror or str(error)
        raise ConfigError(f"cannot serve on --uds {path}: {why}; choose another path") from None
    return made


def _remove_dead(path: Path) -> None:
    """Remove a socket that nobody listens on; anything else stays, and binding is refused."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError:
            return
