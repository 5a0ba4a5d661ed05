"""The plane in which rows of numbers differ most. Pure functions of arrays.

N rows, D numbers in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]

__all__ = ["on_plane", "principal_plane"]


def principal_plane(rows_ND: Any) -> tuple[Floats, Floats, Floats]:  # noqa: N803 - shape suffix
    """Mean [D], two orthonormal axes [2, D], and the share of the variance along each [2].

    The largest number of each axis is positive, so that the plane does not flip from call to call.
    Rows that are not finite are left out; where there is no variance the axis is zero.

    >>> import numpy as np
    >>> mean, axes, shares = principal_plane(np.array([[0.0, 1.0], [4.0, 1.0], [8.0, 1.0]]))
    >>> mean.tolist(), axes.tolist(), shares.round(6).tolist()
    ([4.0, 1.0], [[1.0, 0.0], [0.0, 0.0]], [1.0, 0.0])
    """
    import numpy as np

    rows = np.asarray(rows_ND, dtype=np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    width = rows.shape[1]
    mean = rows.mean(axis=0) if len(rows) else np.zeros(width)
    axes, shares = np.zeros((2, width)), np.zeros(2)
    centred = rows - mean
    total = float(np.square(centred).sum())
    if total <= 1e-24 * max(1.0, float(np.square(rows).sum())):
        return mean, axes, shares
    _, sizes, found = np.linalg.svd(centred, full_matrices=False)
    for at, (size, axis) in enumerate(zip(sizes[:2], found[:2], strict=True)):
        if size * size > 1e-12 * total:
            axes[at] = axis * np.sign(axis[np.argmax(np.abs(axis))]) + 0.0  # no negative zeros
            shares[at] = size * size / total
    return mean, axes, shares


def on_plane(
    rows_ND: Any,  # noqa: N803 - shape suffix
    mean_D: Floats,  # noqa: N803 - shape suffix
    axes_2D: Floats,  # noqa: N803 - shape suffix
) -> Floats:
    """Coordinates of each row [N, 2]."""
    import numpy as np

    made: Floats = (np.asarray(rows_ND, dtype=np.float64) - mean_D) @ axes_2D.T
    return made
