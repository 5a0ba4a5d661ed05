"""The Python twin of the page's buttons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from midstep.client.catalog import ListedRun, list_runs, read_curves
from midstep.client.datasets import ServedDataset
from midstep.client.events import messages
from midstep.client.finding import Found, find_runs, named, token_of
from midstep.client.influence import StoredResults
from midstep.client.recipes import Recipes
from midstep.client.transport import Transport
from midstep.core.errors import ClientError, UnclearRunError
from midstep.core.ids import new_command_id

__all__ = ["Client"]

DEFAULT_ROOT = "outputs/runs"


class Client:
    """Controls and reads a run over HTTP.

    Args:
        url: the link that the run printed, or its base address; None finds the only live run.
        token: the token, when the link does not carry it.
        run: id of the run; the only live one when left out.
        who: `python` or `cli`; stands in the command log.
        timeout_s: how long to wait for an answer.
        socket_path: the Unix socket to connect to, where the server has no port (`--uds`).

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
            only = _only_live(DEFAULT_ROOT)
            url, token, run = only.url, token or token_of(DEFAULT_ROOT), run or only.run_id
            socket_path = only.socket
        parts = urlsplit(url)
        carried = parse_qs(parts.fragment).get("token", [None])[0]
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.run = run
        self.transport = Transport(
            self.url, token or carried, who=who, timeout_s=timeout_s, socket_path=socket_path
        )

    @classmethod
    def find(
        cls,
        save_dir: str | Path = DEFAULT_ROOT,
        *,
        run: str | None = None,
        who: str = "python",
    ) -> Client:
        """A client for the only live run below `save_dir`, or for the one that `run` names.

        `run` is an id, a name, the name of a directory, or the start of one that is unique.
        """
        only = _only_live(save_dir, run)
        token = token_of(save_dir)
        return cls(only.url, token, run=only.run_id, who=who, socket_path=only.socket)

    def choose(self, run: str) -> None:
        """Talk to the run of this server that `run` names, as `find` does."""
        served = [
            Found(
                run_id=each["id"],
                directory=Path(each["directory"]),
                url=self.url,
                name=each["name"],
                step=each["step"],
            )
            for each in self.runs()
        ]
        self.run = _only(served, run).run_id

    def __repr__(self) -> str:
        """The address; the token stays out of logs."""
        return f"Client({self.url!r}, run={self.run!r})"

    # -- verbs ------------------------------------------------------------------------------------

    def pause(self) -> dict[str, Any]:
        """Park at the next boundary; gives the state after it."""
        return self._verb("pause")

    def resume(self) -> dict[str, Any]:
        """Go on."""
        return self._verb("resume")

    def step(self, n: int = 1) -> dict[str, Any]:
        """Let n steps pass, then park again."""
        return self._verb("step", n=n)

    def run_until(self, step: int) -> dict[str, Any]:
        """Go on, and park when that many steps are finished."""
        return self._verb("run_until", step=step)

    def back(self, n: int | None = None, *, step: int | None = None) -> dict[str, Any]:
        """Return to the state before the last n steps (1), or to a step; gives the state there.

        A long way takes more than a moment: then it gives the command, as any verb that does.
        """
        asked = {"n": n} if step is None else {"n": n, "step": step}
        return self._verb("back", **asked)

    def rewind(self) -> dict[str, Any]:
        """How far back one can go: first_step, snapshot_steps, bytes, replay_cost_s."""
        return dict(self._get(self._debug("rewind")))

    def set_hparams(self, **values: Any) -> dict[str, Any]:
        """Change lr, weight_decay, lr_mul, wd_mul, momentum, betas or eps; `result` has the old."""
        return self.command("set_hparams", **values)

    def certify(self, steps: int = 2) -> dict[str, Any]:
        """Make steps twice and compare every bit; the record's `result` has text and data."""
        return self.command("determinism_health", steps=steps)

    def stop(self) -> dict[str, Any]:
        """End the run at the next boundary."""
        return self._verb("stop")

    def end(self, how: str = "terminate") -> dict[str, Any]:
        """Signal the run's process where `stop` does not help: `terminate`, or `kill` at once."""
        return dict(self.transport.ask("POST", self._of_run("end"), body={"how": how}))

    def _verb(self, name: str, **payload: Any) -> dict[str, Any]:
        return self._once(self._debug(name), {**payload, "id": new_command_id()})

    def _once(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post a command; when no answer came, ask again: the id makes sure it is done once."""
        try:
            answer = self.transport.ask("POST", path, body=body)
        except ClientError as error:
            if error.status is not None:
                raise
            answer = self.transport.ask("POST", path, body=body)
        return dict(answer)

    def command(self, name: str, **payload: Any) -> dict[str, Any]:
        """Any command of the registry; gives its record."""
        body = {"command": name, "payload": payload, "id": new_command_id()}
        return self._once(self._of_run("commands"), body)

    def command_record(self, command_id: str) -> dict[str, Any]:
        """What became of a command."""
        return dict(self._get(self._of_run(f"commands/{quote(command_id, safe='')}")))

    def cancel(self, command_id: str) -> dict[str, Any]:
        """Take a waiting command back, or ask a running one to end; gives its record."""
        path = self._of_run(f"commands/{quote(command_id, safe='')}/cancel")
        return dict(self.transport.ask("POST", path, body={}))

    def commands(self, limit: int = 100) -> list[dict[str, Any]]:
        """The command log, newest last."""
        return list(self._get(self._of_run("commands"), limit=limit))

    # -- looking ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The real state of the run."""
        return dict(self._get(self._debug("state")))

    def batch(self) -> dict[str, Any]:
        """The last captured batch: picture, loss, ids."""
        return dict(self._get(self._debug("batch")))

    def step_data(self, key: str | None = None, *, full: bool = False) -> Any:
        """Names of what hooks pushed this step, or one entry of it."""
        if key is None:
            return self._get(self._debug("step_data/keys"))["keys"]
        path = self._debug(f"step_data/{quote(key, safe='')}")
        return self._get(path, full="true" if full else None)

    def forces(self, tensor: str | None = None) -> dict[str, Any]:
        """Both forces on every row of a tensor in the last shown step; agree, fight, neutral."""
        return dict(self._get(self._debug("forces"), tensor=tensor))

    def force_detail(self, feature: int, *, tensor: str | None = None) -> dict[str, Any]:
        """One row's change by the last shown step: combined = grad_delta + som_delta."""
        path = self._debug("step_data/force_detail")
        return dict(self._get(path, feature=int(feature), tensor=tensor))

    def cosine_matrix(
        self,
        source: str = "weights",
        *,
        tensor: str | None = None,
        order: str = "id",
        full: bool = False,
    ) -> dict[str, Any]:
        """Cosines of all pairs of rows, averaged above 512 rows unless `full`.

        Args:
            source: `weights`, `som_targets` or `grad_delta`.
            tensor: whose rows; the run's default when left out.
            order: `id`, `cluster` or `metric:NAME`.
            full: all cells, up to 2,000 rows; larger ones travel as safetensors only.
        """
        asked = {"source": source, "tensor": tensor, "order": order}
        full_asked = "true" if full else None
        return dict(self._get(self._debug("cosine_matrix"), **asked, full=full_asked))

    def runs(self, **query: Any) -> list[dict[str, Any]]:
        """The runs that the server knows, newest first: of `midstep serve` all in its folder.

        Args:
            **query: q, state, tag, where (`"config.lr=0.1"`), sort (`"-val_loss"`), offset, limit.
        """
        return list(self.run_page(**query)["runs"])

    def run_page(self, **query: Any) -> dict[str, Any]:
        """The same with total, matching, states, columns, and groups with `group="config.lr"`."""
        return list_runs(self.transport, **query)

    def listed(self, run_id: str) -> ListedRun:
        """One of them: `info()`, `label(tags=…)`, `files()`, `console()`, `delete(confirm=…)`."""
        return ListedRun(self.transport, run_id)

    def curves(
        self, runs: Sequence[str], name: str, *, x: str = "step", points: int = 500
    ) -> dict[str, Any]:
        """One series of several runs by id, over `step`, `epoch` or `time`: x, low, high."""
        return read_curves(self.transport, runs, name, x=x, points=points)

    def scalars(
        self, names: str | Sequence[str] | None = None, *, points: int = 2000
    ) -> dict[str, Any]:
        """Series by name: step, low, high, exact, count."""
        wanted = names if isinstance(names, str) or names is None else ",".join(names)
        return dict(self._get(self._of_run("scalars"), names=wanted, points=points)["series"])

    def events(self, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """Lifecycle records and interventions behind a sequence number."""
        return list(self._get(self._of_run("events"), after_seq=after_seq)["events"])

    @property
    def recipes(self) -> Recipes:
        """What a `midstep serve` can start: `list()`, `start("bcl", steps=500, paused=True)`."""
        return Recipes(self.transport)

    @property
    def influence(self) -> StoredResults:
        """The stored influence results: `results()`, `result(id)`, `kernel(id)`, `what_if(…)`."""
        return StoredResults(self.transport)

    def datasets(self) -> list[dict[str, Any]]:
        """Embedding datasets in the folders that the server was given, newest first."""
        return list(self._get("/api/v1/datasets")["datasets"])

    def dataset(self, dataset_id: str) -> ServedDataset:
        """One of them: `info()`, `map()`, `pairs(split="val")`, `pair(17)`, `audit()`."""
        return ServedDataset(self.transport, dataset_id)

    def stream(self, *, last_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Messages as they come; reconnects by itself and repeats nothing."""
        return messages(self.transport, self.run, last_id=last_id)

    # -- breakpoints and watches ------------------------------------------------------------------

    def breakpoints(self) -> list[dict[str, Any]]:
        """All breakpoints with what they have done so far."""
        return list(self._get(self._debug("breakpoints")))

    def add_breakpoint(
        self, kind: str, *, enabled: bool = True, action: str = "pause", **settings: Any
    ) -> dict[str, Any]:
        """A new breakpoint, for example `add_breakpoint("expression", expression="loss > 2")`.

        With `action="mark"` it only leaves a mark in the facts when it begins to hold.
        """
        body = {"condition": {"kind": kind, **settings}, "enabled": enabled, "action": action}
        return dict(self.transport.ask("POST", self._debug("breakpoints"), body=body))

    def enable_breakpoint(self, breakpoint_id: int, enabled: bool = True) -> dict[str, Any]:
        """Switch a breakpoint on or off."""
        path = self._debug(f"breakpoints/{int(breakpoint_id)}")
        return dict(self.transport.ask("PATCH", path, body={"enabled": enabled}))

    def set_breakpoint_action(self, breakpoint_id: int, action: str) -> dict[str, Any]:
        """Let a breakpoint stop the run (`pause`), or only mark it (`mark`)."""
        path = self._debug(f"breakpoints/{int(breakpoint_id)}")
        return dict(self.transport.ask("PATCH", path, body={"action": action}))

    def rules(self) -> list[dict[str, Any]]:
        """The ready-made rules, with their limits and explanations."""
        return list(self._get(self._debug("rules")))

    def add_rule(
        self, rule: str, *, enabled: bool = True, action: str = "pause", **settings: Any
    ) -> dict[str, Any]:
        """A ready-made rule as a breakpoint: `add_rule("dead_relus", action="mark")`."""
        return self.add_breakpoint("rule", enabled=enabled, action=action, rule=rule, **settings)

    def remove_breakpoint(self, breakpoint_id: int) -> None:
        """Remove a breakpoint."""
        self.transport.ask("DELETE", self._debug(f"breakpoints/{int(breakpoint_id)}"))

    def watch(self, *feature_ids: int, source: str | None = None) -> dict[str, Any]:
        """Replace the watch list of a source by these rows; no rows, no source: watch nothing."""
        body = {"feature_ids": list(feature_ids), "source": source}
        return dict(self.transport.ask("POST", self._debug("watch"), body=body))

    def watched(self) -> dict[str, Any]:
        """What is watched, and the tensors whose rows could be."""
        return dict(self._get(self._debug("watch")))

    def trajectories(self, *, points: int = 2000) -> dict[str, Any]:
        """Points of every watched row, also of those no longer watched; at most `points` each."""
        return dict(self._get(self._debug("trajectories"), points=points))

    def clear_trajectories(self) -> None:
        """Forget all points."""
        self.transport.ask("POST", self._debug("trajectories/clear"), body={})

    # -- addresses --------------------------------------------------------------------------------

    def _get(self, path: str, **query: Any) -> Any:
        return self.transport.ask("GET", path, query=query)

    def _debug(self, name: str) -> str:
        """The short form while the run is not named: then it means the only live one."""
        return f"/debug/{name}" if self.run is None else f"/api/v1/runs/{self.run}/debug/{name}"

    def _of_run(self, name: str) -> str:
        if self.run is None:
            self.run = self._only_run()
        return f"/api/v1/runs/{self.run}/{name}"

    def _only_run(self) -> str:
        everyone = self.runs()
        runs = [each for each in everyone if each["live"]] or everyone
        if len(runs) != 1:
            names = ", ".join(each["id"] for each in runs[:8]) or "none"
            more = " …" if len(runs) > 8 else ""
            raise ClientError(
                f"the server has {len(runs)} runs ({names}{more}). Give run=… to choose."
            )
        return str(runs[0]["id"])


def _only_live(save_dir: str | Path, wanted: str | None = None) -> Found:
    """The one run below `save_dir` that answers, or the one of them that is wanted."""
    live = find_runs(save_dir)
    if not live:
        raise ClientError(
            f"no live run below {save_dir}. Start one with `midstep demo`, or give the address "
            "of one elsewhere (--url)."
        )
    return _only(live, wanted)


def _only(live: list[Found], wanted: str | None) -> Found:
    found = live if wanted is None else named(live, wanted)
    if len(found) == 1:
        return found[0]
    if not found:
        said = f"no live run is called {wanted}"
    elif wanted is None:
        said = f"{len(live)} runs are live"
    else:
        said = f"{wanted} names {len(found)} runs"
    raise UnclearRunError(
        f"{said}; choose one by its name or id (--run, in Python run=…) or its address (--url):",
        [each.words for each in found or live],
    )
