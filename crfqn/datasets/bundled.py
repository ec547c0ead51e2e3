"""Folders of the ready-made models and of the dataset registry, for recipes and datasets.

In an installed wheel they travel inside the package, in `crfqn/_bundled/`; in a source checkout (and an
editable install) they are the folders `models/` and `data/` beside the package.
"""

from pathlib import Path
from typing import Literal

from crfqn.errors import DataError

PACKAGE = Path(__file__).resolve().parents[1]  # crfqn/


def bundled(kind: Literal["models", "data"]) -> Path:
    """Return the folder that has the ready-made `models` or the dataset registry `data`.

    Raises
    ------
    DataError
        The installation is incomplete: neither the installed nor the checkout's folder exists.
    """
    candidates = (PACKAGE / "_bundled" / kind, PACKAGE.parent / kind)
    for folder in candidates:
        if folder.is_dir():
            return folder
    tried = " and ".join(str(folder) for folder in candidates)
    raise DataError(
        f"this installation of crfqn has no folder {kind!r}: looked for {tried}; install crfqn again"
    )
