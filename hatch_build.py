"""Puts the built dashboard into sdist and wheel.

The Makefile builds the page before it calls pip, so that npm never runs hidden inside an install;
then this hook finds the bundle fresh and returns. It builds by itself only when nobody did and npm
is there.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLE = Path("src/midstep/server/static/index.html")
DASHBOARD = Path("dashboard")
SOURCES = (
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "src",
    "public",
    "scripts",
)
REMEDY = (
    "The dashboard is not built and npm is not on the PATH. Install Node 20 or newer and run "
    "`npm ci && npm run build` in dashboard/, or install a released wheel: it has the page inside."
)

OLD_BUNDLE = (
    "The dashboard's sources are newer than its bundle, and npm is not on the PATH: the old bundle "
    "is taken."
)


class CustomBuildHook(BuildHookInterface[Any]):
    """Runs before files are collected for a target."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Make sure of the bundle, or say what to do."""
        root = Path(self.root)
        if is_fresh(root):
            return
        if shutil.which("npm") is not None:
            build(root)
        elif (root / BUNDLE).is_file():
            self.app.display_warning(OLD_BUNDLE)
        elif version == "editable":
            self.app.display_warning(f"{REMEDY} Until then the server works without its page.")
        else:
            raise RuntimeError(REMEDY)


def is_fresh(root: Path) -> bool:
    """Whether the bundle is there and newer than everything it is made from.

    In an unpacked sdist (it has a PKG-INFO) times mean nothing: its bundle was made from it.
    """
    bundle = root / BUNDLE
    if not bundle.is_file():
        return False
    if (root / "PKG-INFO").is_file():
        return True
    built = bundle.stat().st_mtime
    return all(path.stat().st_mtime <= built for path in sources(root / DASHBOARD))


def sources(dashboard: Path) -> list[Path]:
    """Files that the bundle is made from; tests are none of them."""
    roots = [dashboard / name for name in SOURCES]
    files = [path for path in roots if path.is_file()]
    for folder in filter(Path.is_dir, roots):
        files += [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if ".test." not in path.name]


def build(root: Path) -> None:
    """Install what the lock names, if needed, and build the page."""
    dashboard = root / DASHBOARD
    npm = shutil.which("npm") or "npm"
    if not (dashboard / "node_modules").is_dir():
        subprocess.run([npm, "ci"], cwd=dashboard, check=True)  # noqa: S603 - npm by its full path
    subprocess.run([npm, "run", "build"], cwd=dashboard, check=True)  # noqa: S603
