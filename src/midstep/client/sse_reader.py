"""Read the server-sent events of a run, and reconnect where the connection broke."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from midstep.client.http_transport import Transport, read_refusal
from midstep.client.number_conversion import convert_numbers
from midstep.core import strict_json
from midstep.core.errors import ClientError

STREAM = "/api/v1/stream"
FIRST_RETRY_S = 0.1
MAX_RETRY_S = 5.0


def parse_events(lines: Iterable[bytes]) -> Iterator[tuple[str | None, str]]:
    r"""Yield (id, data) of each event in a stream of lines.

    >>> list(parse_events([b"id: 0.7\n", b"data: {}\n", b"\n"]))
    [('0.7', '{}')]
    """
    event_id: str | None = None
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        field, _, value = line.partition(":")
        if not line and data:
            yield event_id, "\n".join(data)
        if not line:
            event_id, data = None, []
        elif field == "id":
            event_id = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))


def read_messages(
    transport: Transport,
    run: str | None,
    *,
    last_id: str | None = None,
    reconnect: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Yield the messages of the stream; after a lost connection those after the last durable one.

    Durable messages carry their id as `_id`. A refusal of the server raises `ClientError`.
    """
    wait_s = FIRST_RETRY_S
    while True:
        try:
            for event_id, message in _read_connection(transport, run, last_id):
                last_id = event_id or last_id
                wait_s = FIRST_RETRY_S
                yield message
        except ClientError as error:
            # With a status the server has refused, and would refuse again; without, it is gone.
            if error.status is not None or not reconnect:
                raise
        if not reconnect:
            return
        sleep(wait_s)
        wait_s = min(2 * wait_s, MAX_RETRY_S)


def _read_connection(
    transport: Transport, run: str | None, last_id: str | None
) -> Iterator[tuple[str | None, dict[str, Any]]]:
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
    connection, response = transport.open("GET", STREAM, query={"run": run}, headers=headers)
    try:
        if response.status != 200:
            raise read_refusal(response.status, response.read())
        for event_id, data in parse_events(response):
            message = convert_numbers("GET", STREAM, strict_json.loads(data))
            yield event_id, message if event_id is None else {**message, "_id": event_id}
    except (OSError, http.client.HTTPException) as error:
        raise ClientError(f"the stream was cut off ({error})") from error
    finally:
        connection.close()
