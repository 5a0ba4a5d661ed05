"""What every test gets: folders of its own, programs it needs, a check for what it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

# Two workers with two spinning OpenMP threads each slow one another down tenfold on two cores.
# Set before anything imports torch; children inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ONE_WORKER = (
    "tests/browser/",
    "tests/data/steering/test_ranks.py",
    "tests/faults/test_many_runs.py",
    "tests/test_packaging.py",
)
"""Tests with a browser, with many processes or with a wheel, which mostly wait for those."""

GRACE_S = 30.0
"""How long threads and children may take to end after a test; a clean test waits for nothing."""

# psutil finds children by reading every process of the machine: 1 to 7 ms, twice a test.
TASKS = Path("/proc/self/task")

ENDING = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}
"""Signals that end a program, with what Python does on each."""

LIBRARY_THREADS = (
    "asyncio_",  # a loop's default executor, kept until the loop is closed by its library
    "AnyIO worker thread",  # starlette's pool, kept a while for the next request
    "pytest_timeout",
)
LIBRARY_CHILDREN = (
    "multiprocessing.resource_tracker",  # one per process, lives as long as it
    "multiprocessing.forkserver",
    "torch_shm_manager",  # started by torch with the first shared tensor
    "tests/warm_parent.py",  # ours: forks programs for all tests of this process
)
LIBRARY_VARIABLES = {
    "PYTEST_CURRENT_TEST",  # changes by itself
    "KMP_DUPLICATE_LIB_OK",  # set by OpenMP libraries when they load
    "KMP_INIT_AT_FORK",
    "TORCHINDUCTOR_CACHE_DIR",  # set by torch with the first optimizer
}


@pytest.hookimpl(optionalhook=True)  # without xdist, pytest refuses hooks that it does not know
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Sends the files of `ONE_WORKER` to one worker, and every other test to a free one.

    Under `--dist loadgroup` only. xdist 3.8 reads groups from ids of tests, and its marks do not
    get there since pytest 9.2: only paths are known where tests are handed out.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "one worker" if nodeid.startswith(ONE_WORKER) else nodeid

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Make the report of a test text that xdist can send.

    Tests of odd file names show lone surrogates in their reports. xdist ends the whole run at
    those, and nobody learns which test failed.
    """
    report = yield
    if report.failed:
        text = str(report.longrepr)
        if text != _plain(text):
            report.longrepr = _plain(text)
    # Also of a test that passed: what it logged is sent too.
    report.sections = [(_plain(name), _plain(shown)) for name, shown in report.sections]
    return report


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> Iterator[None]:
    """Signals that end a program reach it here and in children, which inherit ignored ones.

    A script ignores SIGINT for what it starts in the background, and `nohup` ignores SIGHUP.
    """
    ignored = [number for number in ENDING if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, ENDING[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tokens, ports, sockets and caches of tests stay out of the user's home."""
    home = tmp_path_factory.mktemp("user")
    kept = dict(os.environ)
    for name in ("CACHE_HOME", "STATE_HOME", "RUNTIME_DIR"):
        folder = home / name.lower()
        folder.mkdir(mode=0o700)
        os.environ[f"XDG_{name}"] = str(folder)
    for name in [name for name in os.environ if name.startswith("MIDSTEP_")]:
        del os.environ[name]
    yield home
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture(autouse=True)
def no_leaks(user_folders: Path) -> Iterator[None]:
    """A thread, child process or environment variable left behind fails the test that left it."""
    threads, children, variables = set(threading.enumerate()), _children(), dict(os.environ)
    yield
    deadline = time.monotonic() + GRACE_S
    left = [f"thread {thread.name}" for thread in _threads_left(threads, deadline)]
    left += [f"process {child}" for child in _children_left(children, deadline)]
    left += [f"variable {name}" for name in _variables_left(variables)]
    if left:
        pytest.fail(f"this test left behind: {', '.join(sorted(left))}", pytrace=False)


def _threads_left(before: set[threading.Thread], deadline: float) -> list[threading.Thread]:
    new = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(LIBRARY_THREADS)
    ]
    for thread in new:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in new if thread.is_alive()]


def _children() -> dict[int, str]:
    """Living children by process id, with their command lines."""
    commands: dict[int, str] = {}
    for pid in _child_ids():
        try:
            child = psutil.Process(pid)
            if child.status() != psutil.STATUS_ZOMBIE:
                commands[pid] = " ".join(child.cmdline())
        except psutil.NoSuchProcess:
            continue  # it ended while we looked
    return commands


def _child_ids() -> list[int]:
    """Process ids of all children, whichever thread started them."""
    if not (TASKS / str(os.getpid()) / "children").exists():  # no Linux, or an unusual kernel
        return [child.pid for child in psutil.Process().children()]
    while True:
        try:
            files = [task / "children" for task in TASKS.iterdir()]
            return [int(pid) for file in files for pid in file.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread ended meanwhile, and another one has its children now


def _children_left(before: dict[int, str], deadline: float) -> list[str]:
    while True:
        left = [
            f"{pid}: {command[:80]}"
            for pid, command in _children().items()
            if pid not in before and not any(name in command for name in LIBRARY_CHILDREN)
        ]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _variables_left(before: dict[str, str]) -> list[str]:
    names = (before.keys() | os.environ.keys()) - LIBRARY_VARIABLES
    changed = [name for name in names if before.get(name) != os.environ.get(name)]
    for name in changed:  # the next test starts clean
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    return changed


@pytest.fixture(scope="session", autouse=True)
def warm_parent(user_folders: Path) -> Iterator[None]:
    """The process that forks programs with torch ends with the tests; the first use starts it."""
    yield
    if (warm := sys.modules.get("tests.warm")) is not None:
        warm.close_parent()


@pytest.fixture
def no_slow_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write of facts counts as slow, however busy the machine is.

    For tests of exact numbers of records, or of what is on the disk as soon as `log` returns.
    """
    from midstep.facts.write.write_queue import WriteQueue

    monkeypatch.setitem(WriteQueue.__init__.__kwdefaults__, "slow_write_s", 1e9)


@pytest.fixture
def effects_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a server in this process come with their effect, however busy the machine is."""
    monkeypatch.setattr("midstep.server.debug.command_routes.EFFECT_WAIT_S", 60.0)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a real Chromium, or of Chrome."""
    from tools.demo_process import CHROMIUM_NAMES  # tests of this file use it in other folders

    return _program(*CHROMIUM_NAMES)


@pytest.fixture(scope="session")
def strace() -> str:
    """Path of strace."""
    return _program("strace")


def _program(*names: str) -> str:
    """Where a program is, under one of its names. Without it a test is skipped, but fails in CI."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is not None:
        return path
    remedy = f"{names[0]} was not found; install it with: sudo apt-get install {names[0]}"
    if os.environ.get("CI") == "true":
        pytest.fail(remedy, pytrace=False)
    pytest.skip(remedy)
