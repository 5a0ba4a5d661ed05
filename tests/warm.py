"""Programs of midstep that start in 0.1 s: forked by a process that has torch loaded.

Everything else is as with `subprocess`: a process of its own with its own folder, environment,
pipes and signals. Tests of the start itself, and of a terminal, start the interpreter.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]


class WarmParent:
    """The process that forks. It ends when this one closes its socket, or ends."""

    def __init__(self) -> None:
        self._requests, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "tests" / "warm_parent.py"), str(its_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its_end.fileno()],
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            )

    def fork(self, request: bytes, descriptors: list[int]) -> int:
        """The process id of a new program."""
        socket.send_fds(self._requests, [request], descriptors)
        return int(self._requests.recv(64))

    def close(self) -> None:
        self._requests.close()
        self.process.wait()


_parents: list[WarmParent] = []


def close_parent() -> None:
    """End the process that forks, if there is one."""
    while _parents:
        _parents.pop().close()


class WarmProcess:
    """`midstep ARGUMENTS` in a process of its own; what tests use of `subprocess.Popen`.

    With `python` as its program the first argument is a script.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: dict[str, str] | None = None,
        program: str = "midstep",
        new_session: bool = False,
    ) -> None:
        if not _parents:
            _parents.append(WarmParent())
        request = {
            "argv": [program, *arguments],
            "cwd": str(cwd),
            "env": dict(os.environ) if env is None else env,
            "new_session": new_session,
        }
        stdout, its_stdout = os.pipe()
        stderr, its_stderr = os.pipe()
        self._status, its_status = os.pipe()
        its_stdin = os.open(os.devnull, os.O_RDONLY)
        given = [its_stdin, its_stdout, its_stderr, its_status]
        try:
            self.pid = _parents[0].fork(json.dumps(request).encode(), given)
        finally:
            for descriptor in given:
                os.close(descriptor)
        self.stdout: IO[str] = os.fdopen(stdout, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(stderr, encoding="utf-8")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._read_status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"midstep, process {self.pid}", timeout or 0)
        return status

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(os.read(self._status, 16))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it prints until it ends, by the two pipes; nothing of one that was closed."""
        streams = (self.stdout, self.stderr)
        pipes = {stream.fileno(): bytearray() for stream in streams if not stream.closed}
        unread, deadline = set(pipes), time.monotonic() + timeout
        while unread:
            ready, _, _ = select.select(unread, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.kill()
                self.wait()
                raise subprocess.TimeoutExpired(f"midstep, process {self.pid}", timeout)
            for descriptor in ready:
                data = os.read(descriptor, 1 << 16)
                pipes[descriptor] += data
                if not data:
                    unread.discard(descriptor)
        texts = [
            "" if stream.closed else bytes(pipes[stream.fileno()]).decode() for stream in streams
        ]
        self.stdout.close()
        self.stderr.close()
        self.wait(max(0.0, deadline - time.monotonic()))
        return texts[0], texts[1]


def run_warm(
    *arguments: str,
    cwd: Path,
    timeout: float,
    env: dict[str, str] | None = None,
    program: str = "midstep",
) -> subprocess.CompletedProcess[str]:
    """`midstep ARGUMENTS`, or a script with `python`, to its end."""
    process = WarmProcess(*arguments, cwd=cwd, env=env, program=program)
    stdout, stderr = process.communicate(timeout)
    return subprocess.CompletedProcess(list(arguments), process.wait(), stdout, stderr)
