"""Greedy bodies cost the server no memory: its resident size stays where it was."""

from __future__ import annotations

import gc
from contextlib import suppress

import psutil

from tests.security.test_tokens_and_bodies import post_head

DEEP = 100_000
ROUNDS = 30
SLACK_BYTES = 48 << 20
"""Pools and fragments; one leaked mebibyte a round would pass it by far with the others."""
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def test_deep_json_leaves_memory_flat(shared):
    bodies = [
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP,
        b'{"id": ' + b"[" * DEEP + b"1" + b"]" * DEEP + b"}",
    ]
    for body in bodies:  # what is loaded and cached once counts for nothing
        assert shared.ask("POST", "/debug/step", body).status in (400, 422)
    before = resident_bytes()
    for _ in range(ROUNDS):
        for body in bodies:
            assert shared.ask("POST", "/debug/step", body).status in (400, 422)
    assert resident_bytes() - before < SLACK_BYTES


def endless(shared) -> bytes:
    """Send chunks until the server has enough; gives the first line of its answer."""
    connection = shared.raw(post_head(shared, "Transfer-Encoding: chunked"))
    with connection, connection.makefile("rb") as answer:
        with suppress(ConnectionError):  # it may close while we still send
            for _ in range(200):  # 12.5 MiB, were they all read
                connection.sendall(CHUNK)
        with suppress(ConnectionError):
            return answer.readline()
    return b""


def test_endless_chunks_leave_memory_flat(shared):
    first = endless(shared)
    assert first == b"" or first.split()[1] == b"413"
    before = resident_bytes()
    for _ in range(ROUNDS):
        endless(shared)
    assert resident_bytes() - before < SLACK_BYTES
    assert shared.controller.get_state()["step"] == 0
