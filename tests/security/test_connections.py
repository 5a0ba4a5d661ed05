"""Slow headers, many connections, stuck viewers."""

from __future__ import annotations

import socket
import threading

from midstep.server.transport.h11_limits import ConnectionLimits
from midstep.server.transport.server_thread import ServerThread


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))


def test_slow_headers_are_closed_while_others_are_served(served):
    quick = ServerThread(served.app, header_s=0.2)
    with quick:
        port = int(quick.url.rsplit(":", 1)[1])
        slow = connect(port)
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        stop = threading.Event()
        trickle = threading.Thread(target=_trickle, args=(slow, stop))
        trickle.start()
        try:
            assert _ends(slow)
        finally:
            stop.set()
            trickle.join()
            slow.close()
    assert served.ask("GET", "/api/v1/health", token=None).status == 200


def test_a_second_header_on_a_kept_connection_is_timed_too(served):
    quick = ServerThread(served.app, header_s=2.0)  # longer than the first one ever takes
    with quick:
        port = int(quick.url.rsplit(":", 1)[1])
        with connect(port) as kept:
            kept.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert kept.recv(100).startswith(b"HTTP/1.1 200")
            kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            assert _ends(kept)


def _trickle(connection: socket.socket, stop: threading.Event) -> None:
    """One byte at a time: it never becomes a whole header."""
    while not stop.wait(0.02):
        try:
            connection.sendall(b"x")
        except OSError:
            return


def _ends(connection: socket.socket) -> bool:
    """Whether the server closes; fails by the socket's own timeout when it does not."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return True


def test_500_connections_from_one_address_do_not_stop_the_others(served):
    crowd = []
    try:
        for _ in range(500):
            crowd.append(connect(served.port))
        assert served.ask("GET", "/debug/state", source="127.0.0.2").status == 200
        assert served.ask("POST", "/debug/step", {}, source="127.0.0.2").status == 200
    finally:
        for connection in crowd:
            connection.close()


def test_limits_count_by_address_and_forget_who_left():
    limits = ConnectionLimits(per_address=2, in_all=3)
    assert [limits.enter("a") for _ in range(3)] == [True, True, False]
    assert limits.enter("b")
    assert not limits.enter("c")
    limits.leave("a")
    assert limits.enter("c")
    assert limits.open.total() == 3
