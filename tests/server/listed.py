"""A server over a folder of stored runs, as `midstep serve` is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from midstep.facts.index.run_index import RunIndex
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.runs.run_catalog import RootCatalog
from midstep.server.runs.run_table import RunTable
from midstep.server.transport.server_thread import ServerThread
from tests.served import Served


@contextmanager
def listing(root: Path, **guard: Any) -> Iterator[Served]:
    """The runs under `root`, on a server of their own."""
    runs, tokens = RunTable(), Tokens.fresh()
    catalog = RootCatalog(RunIndex(root, "memory"))
    app = create_app(runs, guard=GuardConfig(tokens=tokens, **guard), catalog=catalog)
    server = ServerThread(app)
    url = server.start()
    try:
        yield Served(None, runs, tokens, app, url, int(url.rsplit(":", 1)[1]), server)
    finally:
        server.close()
