"""A paused demo, and in front of it the page's development server, which reloads as you edit.

The development server forwards the API to the demo. Ctrl-C ends both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start_demo(arguments: list[str]) -> tuple[subprocess.Popen[str], str]:
    """The demo's process, and the address it printed."""
    command = [sys.executable, "-m", "midstep.cli", "demo", "--start-paused", *arguments]
    demo = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert demo.stdout is not None  # noqa: S101 - it was asked for above
    for line in demo.stdout:
        print(line, end="", flush=True)
        if line.startswith("page "):
            return demo, line.split()[1]
    sys.exit(demo.wait() or 1)


def main() -> None:
    """Start both, wait for the development server, stop the demo."""
    demo, url = start_demo(sys.argv[1:])
    server, _, token = url.partition("#")
    print(f"edit  http://localhost:5173/#{token}", flush=True)
    try:
        environment = {**os.environ, "MIDSTEP_SERVER": server.rstrip("/")}
        subprocess.run(["npm", "run", "dev"], cwd=ROOT / "dashboard", env=environment, check=False)
    except KeyboardInterrupt:
        print()
    finally:
        demo.terminate()
        demo.wait()


if __name__ == "__main__":
    main()
