"""A closed stderr, and children that the user forks: the run and its page are left alone."""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

import pytest

from midstep.facts import FactsReader, end_state
from midstep.live import attach, serve
from midstep.session import Session, SessionConfig
from tests.checkers.kill import Acknowledge, ForkedChild, assert_facts_survive, fork, run_forked
from tests.live.trainer import Plain


def close_stderr() -> None:
    """As a program that is started with `2>&-`."""
    os.close(2)
    sys.stderr = None  # type: ignore[assignment]


def break_stderr() -> None:
    """As a program whose terminal or pipe is gone."""
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(reader)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - for the whole process


@pytest.mark.parametrize("prepare", [close_stderr, break_stderr])
def test_a_run_without_a_stderr_trains_to_its_end(tmp_path, prepare):
    noise = f"noise {os.getpid()}".encode()  # in no file of the repository, which a git diff keeps

    def work(acknowledge: Acknowledge) -> None:
        prepare()
        plain = Plain()
        with attach(*plain.parts, save_dir=tmp_path, run_name="run", on_error="raise") as run:
            plain.train(run)
            # What a library writes to descriptor 2 must not reach a file of the run.
            os.write(2, noise) if prepare is close_stderr else None
        acknowledge(run.status)

    child = ForkedChild(work)
    assert child.wait() == ["finished"]
    assert_facts_survive(tmp_path / "run")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert all(noise not in path.read_bytes() for path in files)


def leave_in_a_fork() -> None:
    """A child of the user's that leaves by `sys.exit`, through all blocks around it."""
    pid = fork()
    if pid == 0:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def answers(url: str) -> int:
    with urllib.request.urlopen(url.partition("#")[0], timeout=30) as answer:
        return int(answer.status)


def attached(folder: Path) -> str | None:
    plain = Plain()
    with attach(*plain.parts, save_dir=folder, run_name="run", serve=True, port=0) as run:
        for _ in run.epochs(2):
            for x, _y in plain.loader:
                run.log(loss=plain.step(x))
                if run.step == 2:
                    leave_in_a_fork()
                    assert answers(run.url) == 200
        assert answers(run.url) == 200
    return run.status


def served_session(folder: Path) -> str | None:
    plain = Plain()
    config = SessionConfig(save_dir=folder, run_name="run")
    with Session(plain.model, plain.optimizer, None, plain.loader, config=config) as session:
        session.training_step(lambda model, batch: model(batch[0]).square().mean())
        with serve(session, port=0) as page:
            session.fit(steps=3)
            leave_in_a_fork()
            assert answers(page.url) == 200
        leave_in_a_fork()
    return session.run.status


@pytest.mark.parametrize("train", [attached, served_session])
def test_a_forked_child_that_leaves_ends_neither_the_page_nor_the_run(tmp_path, train):
    def work(acknowledge: Acknowledge) -> None:
        parent = os.getpid()
        try:
            acknowledge(train(tmp_path))
        except SystemExit as end:
            if os.getpid() == parent:
                raise
            os._exit(int(end.code or 0))  # the child has left all blocks

    assert run_forked(work) == ["finished"]
    assert end_state(tmp_path / "run").state == "finished"
    assert_facts_survive(tmp_path / "run")
    moments = [event["moment"] for event in FactsReader(tmp_path / "run").events()]
    assert moments.count("on_train_end") == 1


def test_the_socket_of_a_run_answers_after_a_forked_child_has_left(tmp_path):
    import socket

    def work(acknowledge: Acknowledge) -> None:
        parent = os.getpid()
        plain = Plain()
        try:
            with attach(*plain.parts, save_dir=tmp_path, run_name="run") as run:
                leave_in_a_fork()
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(30)
                    connection.connect(run.lease.socket)
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    acknowledge(connection.recv(8).decode())
        except SystemExit:
            os._exit(0 if os.getpid() != parent else 3)

    assert run_forked(work) == ["HTTP/1.1"]
