#!/usr/bin/env python
"""Measurements whose figures stand in the manual: a command for each file in `measurements/`.

python scripts/measure.py peak --data dutch-xpos
python scripts/measure.py stopping conll2000:500 --factor 1 --seconds 20
"""

from __future__ import annotations

import sys

from harness.options import command
from measurements import peak, stopping

from crfqn.errors import CrfqnError

app = command()
app.command("peak")(peak.main)
app.command("stopping")(stopping.main)

if __name__ == "__main__":
    try:
        app()
    except CrfqnError as error:
        sys.exit(f"error: {error}")
