"""A paused demo, and in front of it the page's development server, which reloads as you edit.

The development server forwards the API to the demo. Ctrl-C ends both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started as a script, it finds its neighbour

from tools.demo_process import running_demo  # noqa: E402 - after the path is set


def main() -> None:
    """Start both, wait for the development server, stop the demo."""
    with running_demo(ROOT / "outputs" / "runs", "--start-paused", *sys.argv[1:]) as url:
        server, _, token = url.partition("#")
        print(f"edit  http://localhost:5173/#{token}", flush=True)
        environment = {**os.environ, "MIDSTEP_SERVER": server.rstrip("/")}
        try:
            subprocess.run(
                ["npm", "run", "dev"], cwd=ROOT / "dashboard", env=environment, check=False
            )
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
