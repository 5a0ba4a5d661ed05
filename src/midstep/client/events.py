"""Reading server-sent events, and going on where a connection broke."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from midstep.client.transport import Transport, refusal, with_floats
from midstep.core import strict_json
from midstep.core.errors import ClientError

__all__ = ["messages", "parse_events"]

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0


def parse_events(lines: Iterable[bytes]) -> Iterator[tuple[str | None, str]]:
    r"""(id, data) of each event in a stream of lines.

    >>> list(parse_events([b"id: 0.7\n", b"data: {}\n", b"\n"]))
    [('0.7', '{}')]
    """
    identity: str | None = None
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        field, _, value = line.partition(":")
        if not line and data:
            yield identity, "\n".join(data)
        if not line:
            identity, data = None, []
        elif field == "id":
            identity = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))


def messages(
    transport: Transport,
    run: str | None,
    *,
    last_id: str | None = None,
    reconnect: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Messages of the stream; after a lost connection it goes on behind the last durable one.

    Durable messages carry their id as `_id`. A refusal ends it with a `ClientError`.
    """
    wait_s = FIRST_WAIT_S
    while True:
        try:
            for identity, message in _one_connection(transport, run, last_id):
                last_id = identity or last_id
                wait_s = FIRST_WAIT_S
                yield message
        except ClientError as error:
            if error.status is not None or not reconnect:
                raise
        if not reconnect:
            return
        sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _one_connection(
    transport: Transport, run: str | None, last_id: str | None
) -> Iterator[tuple[str | None, dict[str, Any]]]:
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
    connection, answer = transport.open(
        "GET", "/api/v1/stream", query={"run": run}, headers=headers
    )
    try:
        if answer.status != 200:
            raise refusal(answer.status, answer.read())
        for identity, data in parse_events(answer):
            message = with_floats(strict_json.loads(data))
            yield identity, message if identity is None else {**message, "_id": identity}
    except (OSError, http.client.HTTPException) as error:
        raise ClientError(f"the stream broke off ({error})") from error
    finally:
        connection.close()
