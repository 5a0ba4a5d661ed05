"""A process that has imported torch and the command line, and forks programs that use them.

A program starts in 0.1 s this way, and in 2 s from the interpreter. Nothing is computed before the
fork, so that no thread of torch exists. See `tests.warm`.

It reads requests from the socket at the file descriptor of its first argument: a line of JSON with
`argv`, `cwd`, `env` and `new_session`, and four descriptors: the three standard ones, and where to
write the exit status.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Any

REQUEST_BYTES = 1 << 16


def _become(request: dict[str, Any], standard: list[int]) -> None:
    """What `execve` and `chdir` do for a new program."""
    for target, descriptor in enumerate(standard):
        os.dup2(descriptor, target)
    os.closerange(3, 1024)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]


def serve(requests: socket.socket) -> None:
    """Fork a program for each request; returns in the program, and ends here with the socket."""
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:  # a program has ended
                pid, status_to = key.data
                selector.unregister(key.fd)
                os.close(key.fd)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.write(status_to, str(status).encode())
                os.close(status_to)
                continue
            data, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 4)
            if not data:
                sys.exit(0)
            pid = os.fork()
            if pid == 0:
                selector.close()
                _become(json.loads(data), descriptors[:3])
                return
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            watched = os.pidfd_open(pid)
            selector.register(watched, selectors.EVENT_READ, (pid, descriptors[3]))
            requests.send(str(pid).encode())


if __name__ == "__main__":
    import mlxtend.data  # noqa: F401
    import torch
    import torch._dynamo  # noqa: F401
    import uvicorn  # noqa: F401

    import midstep.cli.demo
    import midstep.live
    import midstep.loops.bcl
    import midstep.server.app  # noqa: F401
    from midstep.__main__ import run

    gc.freeze()  # a collection in a program would copy all of this memory
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal of the tests
    serve(socket.socket(fileno=int(sys.argv[1])))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.argv[0] == "python":  # a test that starts scripts has its own way to run them
        sys.path.insert(0, str(Path(sys.argv[1]).parent))
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        sys.exit(run())
