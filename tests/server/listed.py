"""A server over a folder of stored runs, as `midstep serve` is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from midstep.facts.index import RunIndex
from midstep.server.app import create_app
from midstep.server.catalog import RootCatalog
from midstep.server.guard import GuardConfig
from midstep.server.run_table import RunTable
from midstep.server.thread import ServerThread
from midstep.server.tokens import Tokens
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
