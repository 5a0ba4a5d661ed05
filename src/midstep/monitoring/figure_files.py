"""Names of figure files, and writing them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.files.storage import make_folder, make_subfolder, replace_bytes
from midstep.core.moments import Moment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Without these, the time and the versions of libraries would be in the file, and two pictures of
# the same data would differ.
_NO_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def ensure_figures_dir(run_dir: str | Path) -> Path:
    """The folder `figures` of a run; created if it is missing.

    Raises:
        StorageError: there is a link in its place.
    """
    return make_subfolder(make_folder(run_dir), "figures", mode=0o777)


def build_filename(
    family: str, moment: str, epoch: int, *, number: int = 1, fig_format: str = "png"
) -> str:
    """The file name of a figure; a family that draws several at once numbers them from 2.

    >>> build_filename("losses", "on_epoch_end", 3)
    'losses-on_epoch_end-e003.png'
    """
    suffix = "" if number == 1 else f"_{number}"
    return f"{family}{suffix}-{Moment(moment)}-e{epoch:03d}.{fig_format}"


def save_figure(figure: Figure, path: str | Path, *, dpi: int = 120) -> Path:
    """Write a figure as a whole, then close it. Equal figures give equal bytes.

    Args:
        figure: drawn, with its own canvas.
        path: with `.png`, `.svg` or `.pdf` as its suffix.
        dpi: resolution of pixel formats.
    """
    target = Path(path)
    kind = target.suffix.removeprefix(".")
    data = io.BytesIO()
    try:
        figure.savefig(data, format=kind, dpi=dpi, metadata=_NO_METADATA.get(kind))
    finally:
        figure.clear()  # frees its artists; the figure itself belongs to no window
    # No fsync: it can be drawn again from the facts after a power cut.
    replace_bytes(target, data.getvalue(), durable=False)
    return target
