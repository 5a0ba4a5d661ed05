"""The server of all runs of an outputs folder: stored runs from facts, live ones by forwarding."""

from __future__ import annotations

import errno
import socket
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from midstep.core.errors import ConfigError, MidstepError
from midstep.facts.index.run_index import RunIndex
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import KeptTokens, Tokens
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.recipes.allowed_scripts import parse_scripts
from midstep.server.recipes.launcher import Launcher
from midstep.server.runs.run_catalog import RootCatalog
from midstep.server.runs.run_table import ServedRuns
from midstep.server.transport.ports import BACKLOG, bind_for_root
from midstep.server.transport.server_thread import ServerThread

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
LONGEST_UDS_BYTES = 103
"""`sun_path` of macOS has 104 bytes with the final zero, that of Linux 108."""


@dataclass(frozen=True, kw_only=True)
class RootServerConfig:
    """What to serve, and to whom."""

    outputs: Path
    """The folder that holds the runs, at most three levels below; created if it does not exist."""
    port: int | None = None
    """None: the last port used for this folder, else the first free one of 8765 to 8784."""
    host: str = "127.0.0.1"
    """Only this machine can connect by default."""
    allowed_hosts: tuple[str, ...] = ()
    """Exact `Host` values that are accepted when other machines can connect: `node7:8765`."""
    uds: Path | None = None
    """Serve on this Unix socket instead of a port."""
    read_only: bool = False
    """Refuse every write."""
    new_token: bool = False
    """Replace the tokens of the folder. Old links stop working, those of its live runs too."""
    data: tuple[Path, ...] = ()
    """Folders with embedding datasets."""
    scripts: tuple[str, ...] = ()
    """Command lines of scripts that the page may start, such as `train.py --epochs 3`."""

    def __post_init__(self) -> None:
        can_be_created = not (self.read_only or self.outputs.exists())
        if not (self.outputs.is_dir() or (can_be_created and self.outputs.parent.is_dir())):
            raise ConfigError(f"{self.outputs} is not a folder; name the one that holds your runs")
        if self.host not in LOOPBACK and not self.allowed_hosts:
            raise ConfigError(
                f"host {self.host!r} lets other machines connect; give the names in their address "
                "bars with --allow-host, for example --allow-host node7:8765, or leave --host out"
            )
        if self.uds is not None and (self.port is not None or self.host != "127.0.0.1"):
            raise ConfigError("--uds serves on a Unix socket; leave --port and --host out")
        if self.scripts and self.read_only:
            raise ConfigError(
                "--allow-script lets the page start runs, --read-only forbids it; leave one out"
            )
        missing = [str(folder) for folder in self.data if not folder.is_dir()]
        if missing:
            raise ConfigError(f"--data {missing[0]} is not a folder")


class RootServer:
    """Serves all runs of a folder until it is closed.

    Args:
        config: what to serve; errors are raised before a port is bound.
    """

    def __init__(self, config: RootServerConfig) -> None:
        self.config = config
        self.scripts = parse_scripts(config.scripts, Path.cwd())
        if not config.outputs.is_dir():  # the first run may be started from the page
            _create_folder(config.outputs)
        if config.new_token:
            Tokens.for_root(config.outputs, new=True)
        self.tokens = KeptTokens(config.outputs)
        self._index = RunIndex(config.outputs)
        if config.uds is not None:
            self._listener = bind_uds(config.uds)
        else:
            self._listener = bind_for_root(config.outputs, host=config.host, port=config.port)
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
            scripts=self.scripts,
            forward=catalog,
        )
        self._thread = ServerThread(self.app, listening=self._listener)
        self._first_refresh = threading.Thread(target=self._refresh_once, name="first look")
        hosts = config.allowed_hosts if config.uds is None else ()
        self.base = f"http://{hosts[0]}" if hosts else self._thread.url
        """The address of the page, without a token."""

    @property
    def url(self) -> str:
        """The page with the control token; with the viewer token if the server is read-only."""
        if self.config.read_only:
            return self.viewer_url
        return f"{self.base}/#token={self.tokens.control}"

    @property
    def viewer_url(self) -> str:
        """The page with the viewer token."""
        return f"{self.base}/#token={self.tokens.viewer}"

    def start(self) -> Self:
        """Start serving. Returns once requests are answered."""
        try:
            self._first_refresh.start()
            self._thread.start()
        except BaseException:
            self.close()
            raise
        return self

    def _refresh_once(self) -> None:
        """Index the runs before the first request: the first pass over many runs takes longest."""
        with suppress(MidstepError, OSError):  # a request for the list reports the same error
            self._catalog.refresh()

    def close(self) -> None:
        """End the streams and the thread, and free the port. Started runs continue."""
        self._thread.close()
        if self._first_refresh.is_alive():
            self._first_refresh.join()
        if self.launcher is not None:
            self.launcher.close()
        if self.config.uds is not None:
            with suppress(OSError):  # it was removed already
                self.config.uds.unlink()
        self._index.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def save_dir_of(outputs: Path) -> Path:
    """The folder of new runs: `outputs/runs`, or the given folder if it is called `runs`.

    >>> save_dir_of(Path("outputs")).as_posix(), save_dir_of(Path("outputs/runs")).as_posix()
    ('outputs/runs', 'outputs/runs')
    """
    return outputs if outputs.name == "runs" else outputs / "runs"


def _create_folder(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be created: {error.strerror or error}") from None


def bind_uds(path: Path) -> socket.socket:
    """A listening Unix socket of mode 0600. A socket on which no process listens is replaced."""
    if len(str(path.absolute()).encode()) > LONGEST_UDS_BYTES:
        raise ConfigError(f"--uds {path} is too long for a socket; choose a shorter path")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        is_taken = error.errno == errno.EADDRINUSE
        why = "something else is there" if is_taken else error.strerror or str(error)
        raise ConfigError(f"cannot serve on --uds {path}: {why}; choose another path") from None
    return listener


def _remove_dead(path: Path) -> None:
    """Remove a socket on which no process listens. Anything else stays, and binding fails."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError:
            return
