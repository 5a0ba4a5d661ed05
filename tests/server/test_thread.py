from __future__ import annotations

import os
import random
import socket
import threading

import pytest

from midstep.core.errors import ConfigError
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.runs.run_table import RunTable
from midstep.server.transport.ports import PORTS, bind, bind_for_root
from midstep.server.transport.server_thread import ServerThread


def app():
    return create_app(RunTable(), guard=GuardConfig(tokens=Tokens.fresh()))


def test_closing_joins_the_thread_and_frees_the_port():
    server = ServerThread(app())
    url = server.start()
    port = int(url.rsplit(":", 1)[1])
    server.close()
    server.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "midstep-server"]
    bind("127.0.0.1", port).close()


def test_a_forked_worker_holds_neither_port_nor_connections():
    """Loader workers are forked while the server runs, and inherit its sockets."""
    server = ServerThread(app())
    port = int(server.start().rsplit(":", 1)[1])
    kept = socket.create_connection(("127.0.0.1", port), timeout=30)
    kept.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    assert kept.recv(8192).startswith(b"HTTP/1.1 200")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    try:
        server.close()
        while kept.recv(8192):
            pass  # the rest of the answer, then the end
        bind("127.0.0.1", port).close()
    finally:
        kept.close()
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_a_server_that_was_never_started_can_be_closed():
    ServerThread(app()).close()


def test_it_listens_on_this_machine_only_by_default():
    with ServerThread(app()) as server:
        assert server.url.startswith("http://127.0.0.1:")


def test_small_answers_are_sent_at_once():
    """Without TCP_NODELAY each answer after the first waits for a delayed acknowledgement."""
    made = []
    with ServerThread(app()) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as kept:
            kept.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert kept.recv(8192).startswith(b"HTTP/1.1 200")
            for connection in server._server.server_state.connections:
                held = connection.transport.get_extra_info("socket")
                made.append(held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    assert made == [1]


def test_a_taken_port_is_one_line_with_the_remedy():
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} is taken\. Choose another"):
            ServerThread(app(), "127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("203.0.113.1", 0)])
def test_an_impossible_address_is_refused(host, port):
    with pytest.raises(ConfigError, match="cannot serve on"):
        bind(host, port)


def test_the_last_port_of_a_root_is_used_again(tmp_path, monkeypatch):
    start = random.SystemRandom().randrange(20_000, 30_000)  # where no other test looks for one
    own = range(start, start + len(PORTS))
    monkeypatch.setattr("midstep.server.transport.ports.PORTS", own)
    with bind_for_root(tmp_path / "a", host="127.0.0.1", port=None) as first:
        port = first.getsockname()[1]
        assert port in own
        with bind_for_root(tmp_path / "b", host="127.0.0.1", port=None) as other:
            assert other.getsockname()[1] != port
    with bind_for_root(tmp_path / "a", host="127.0.0.1", port=None) as again:
        assert again.getsockname()[1] == port


def test_an_explicit_port_is_taken_or_refused(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(ConfigError, match="is taken"):
            bind_for_root(tmp_path, host="127.0.0.1", port=held.getsockname()[1])
    with bind_for_root(tmp_path, host="127.0.0.1", port=0) as free:
        assert free.getsockname()[1] > 0


def test_a_full_range_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("midstep.server.transport.ports.PORTS", range(8765, 8765))
    with pytest.raises(ConfigError, match="are taken"):
        bind_for_root(tmp_path, host="127.0.0.1", port=None)
