"""`Client`: controls and reads a run over HTTP, as the buttons of the page do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from midstep.client.command_methods import CommandMethods
from midstep.client.debug_client import BreakpointsClient, ForcesClient, WatchesClient
from midstep.client.http_transport import Transport
from midstep.client.run_finder import FoundRun, find_runs, matching_runs, read_token
from midstep.client.run_requests import RunRequests
from midstep.client.runs_client import RecipesClient, RunsClient
from midstep.client.sse_reader import read_messages
from midstep.client.stored_data_client import DatasetsClient, InfluenceClient
from midstep.client.sweeps_client import SweepsClient
from midstep.core.errors import ClientError, UnclearRunError

DEFAULT_SAVE_DIR = "outputs/runs"


class Client(CommandMethods):
    """Controls and reads a run over HTTP.

    Methods such as `pause`, `step` and `back` return the state of the run after the command. If
    that takes longer than 2 s, they return the record of the command instead.

    Args:
        url: the link that the run printed, or its base address; None finds the only live run.
        token: the token, if the link does not carry it.
        run: id of the run; the only live one if left out.
        who: `python` or `cli`; recorded in the command log.
        timeout_s: how long to wait for a response.
        socket_path: the Unix socket to connect to, where the server has no port (`--uds`).

    Attributes:
        breakpoints: `list()`, `add("every", n=100)`, `add_rule("dead_relus")`, `remove(1)`.
        watches: `replace(3, 17)`, `list()`, `trajectories()`, `clear()`.
        forces: `rows()`, `detail(17)`, `cosine_matrix()`.
        runs: all runs of the server: `list(where=…)`, `page(…)`, `curves(…)`, `get(id)`.
        recipes: what `midstep serve` can start: `list()`, `start("demo", steps=500)`.
        sweeps: sweeps of runs: `list()`, `get(id)`, `start(id)`, `stop(id)`.
        datasets: embedding datasets: `list()`, `get(id)`.
        influence: stored influence results: `results()`, `kernel(id)`, `what_if(…)`.

    >>> Client("http://127.0.0.1:8765/#token=abc").transport.token
    'abc'
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        run: str | None = None,
        who: str = "python",
        timeout_s: float = 30.0,
        socket_path: str | None = None,
    ) -> None:
        if url is None:
            only = _find_only_run(DEFAULT_SAVE_DIR)
            url, token, run = only.url, token or read_token(DEFAULT_SAVE_DIR), run or only.run_id
            socket_path = only.socket
        parts = urlsplit(url)
        url_token = parse_qs(parts.fragment).get("token", [None])[0]
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.transport = Transport(
            self.url, token or url_token, who=who, timeout_s=timeout_s, socket_path=socket_path
        )
        super().__init__(RunRequests(self.transport, run))
        self.breakpoints = BreakpointsClient(self._requests)
        self.watches = WatchesClient(self._requests)
        self.forces = ForcesClient(self._requests)
        self.runs = RunsClient(self.transport)
        self.recipes = RecipesClient(self.transport)
        self.sweeps = SweepsClient(self.transport)
        self.datasets = DatasetsClient(self.transport)
        self.influence = InfluenceClient(self.transport)

    @classmethod
    def find(
        cls,
        save_dir: str | Path = DEFAULT_SAVE_DIR,
        *,
        run: str | None = None,
        who: str = "python",
    ) -> Client:
        """Return a client for the only live run below `save_dir`, or for the one `run` names.

        `run` is an id, a name, the name of a directory, or the unique start of one of these.
        """
        only = _find_only_run(save_dir, run)
        token = read_token(save_dir)
        return cls(only.url, token, run=only.run_id, who=who, socket_path=only.socket)

    @property
    def run(self) -> str | None:
        """Id of the run; None means the only live run of the server."""
        return self._requests.run

    @run.setter
    def run(self, run_id: str | None) -> None:
        self._requests.run = run_id

    def choose(self, run: str) -> None:
        """Use the run of this server that `run` names, as in `find`."""
        served = [
            FoundRun(
                run_id=row["id"],
                directory=Path(row["directory"]),
                url=self.url,
                name=row["name"],
                step=row["step"],
            )
            for row in self.runs.list()
        ]
        self.run = _choose_run(served, run).run_id

    def __repr__(self) -> str:
        """Return the address; the token stays out of logs."""
        return f"Client({self.url!r}, run={self.run!r})"

    # -- the run ----------------------------------------------------------------------------------

    def end(self, how: str = "terminate") -> dict[str, Any]:
        """Signal the process of a run that `stop` does not end: `terminate`, or `kill` at once."""
        return dict(self._requests.send("POST", self._requests.run_path("end"), {"how": how}))

    def rewind(self) -> dict[str, Any]:
        """Return how far back the run can go: first_step, snapshot_steps, bytes, replay_cost_s."""
        return dict(self._requests.get(self._requests.debug_path("rewind")))

    def why(self) -> dict[str, Any]:
        """Return where the last stop came from (`diagnosis`), and the error of a `failure`.

        Either is None if there is none.
        """
        return dict(self._requests.get(self._requests.debug_path("diagnosis")))

    def state(self) -> dict[str, Any]:
        """Return the state of the run: step, paused, parked, loss, lr, and more."""
        return dict(self._requests.get(self._requests.debug_path("state")))

    def batch(
        self, *, first: int = 0, count: int = 64, inline: bool = False, stop: str | None = None
    ) -> dict[str, Any]:
        """Return the last captured batch: the shown samples as their kind, ids, targets and losses.

        The run captures what you read for five seconds after each call; the first call waits for
        the end of the step in progress, at most two seconds.

        Args:
            first: index of the first sample.
            count: how many samples, at most 512.
            inline: whether to add a small picture, base64 under `png`.
            stop: what was kept of this stop instead; `client.runs.get(id).evidence()` lists them.
        """
        path, flag = self._requests.debug_path("batch"), "true" if inline else None
        answer = self._requests.get(path, first=first, count=count, inline=flag, stop=stop)
        return dict(answer)

    def batch_picture(
        self,
        *,
        first: int = 0,
        count: int = 64,
        etag: str | None = None,
        layer: str = "image",
        stop: str | None = None,
    ) -> bytes:
        """Return the picture of the same samples: a PNG, whose tiles `batch()["grid"]` describes.

        Args:
            first: index of the first sample.
            count: how many samples, at most 512.
            etag: of `batch()`, for the picture of the same step; it must still be held.
            layer: `image`, or `mask` or `prediction` for the class of each pixel as a byte.
            stop: as in `batch`.
        """
        path = self._requests.debug_path("batch/picture")
        return self._requests.fetch(
            path, first=first, count=count, etag=etag, layer=layer, stop=stop
        )

    def batch_sample(
        self,
        index: int,
        *,
        picture: bool = False,
        layer: str = "image",
        stop: str | None = None,
    ) -> Any:
        """Return one sample at full resolution, as a dict, or as the bytes of a PNG.

        Args:
            index: position in the batch.
            picture: whether to return the PNG.
            layer: of the picture, as in `batch_picture`.
            stop: as in `batch`.
        """
        path = self._requests.debug_path("batch/sample")
        if picture:
            query = {"index": int(index), "format": "png", "layer": layer, "stop": stop}
            return self._requests.fetch(path, **query)
        return dict(self._requests.get(path, index=int(index), stop=stop))

    def step_data(
        self, key: str | None = None, *, full: bool = False, stop: str | None = None
    ) -> Any:
        """Return the keys of what hooks captured in this step, or of a stop; or one entry."""
        if key is None:
            path = self._requests.debug_path("step_data/keys")
            return list(self._requests.get(path, stop=stop)["keys"])
        path = self._requests.debug_path(f"step_data/{quote(key, safe='')}")
        return self._requests.get(path, full="true" if full else None, stop=stop)

    def scalars(
        self,
        names: str | Sequence[str] | None = None,
        *,
        points: int = 2000,
        timeline: int | None = None,
    ) -> dict[str, Any]:
        """Return series by name: step, low, high, exact, count; as they were in a `timeline`."""
        joined = names if isinstance(names, str) or names is None else ",".join(names)
        path = self._requests.run_path("scalars")
        query = {"names": joined, "points": points, "timeline": timeline}
        return dict(self._requests.get(path, **query)["series"])

    def events(self, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """Return the events of the run that come after a sequence number."""
        path = self._requests.run_path("events")
        return list(self._requests.get(path, after_seq=after_seq)["events"])

    def stream(self, *, last_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield messages as they arrive; reconnects by itself and repeats none."""
        return read_messages(self.transport, self.run, last_id=last_id)


def _find_only_run(save_dir: str | Path, name: str | None = None) -> FoundRun:
    """Return the only live run below `save_dir`, or the one that `name` names."""
    live = find_runs(save_dir)
    if not live:
        raise ClientError(
            f"no live run below {save_dir}. Start one with `midstep demo`, or give the address "
            "of one elsewhere (--url)."
        )
    return _choose_run(live, name)


def _choose_run(live: list[FoundRun], name: str | None) -> FoundRun:
    matches = live if name is None else matching_runs(live, name)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        problem = f"no live run is called {name}"
    elif name is None:
        problem = f"{len(live)} runs are live"
    else:
        problem = f"{name} names {len(matches)} runs"
    raise UnclearRunError(
        f"{problem}; choose one by its name or id (--run, in Python run=…) or its address (--url):",
        [each.description for each in matches or live],
    )
