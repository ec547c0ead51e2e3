"""Run tests as if on other processors: several values of NUMBA_CPU_NAME and OPENBLAS_CORETYPE, one after the other.

    python scripts/test_processors.py            scikit-learn's checks, the manual's examples, tests of last digits
    python scripts/test_processors.py --all      the whole suite
    python scripts/test_processors.py -- tests/structures/test_chain.py -k decode      other arguments of pytest

Sums are taken in another order where vectors have another length, so that last digits differ (docs/numerics.md).
A processor can only play one whose instructions it has; settings that it cannot are left out and named. The first run
of each compiles all kernels again, into a cache that numba keeps by the processor's name.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTINGS: list[dict[str, str]] = [
    {},
    {"NUMBA_CPU_NAME": "rocketlake", "OPENBLAS_CORETYPE": "SkylakeX"},
    {"NUMBA_CPU_NAME": "skylake-avx512"},
    {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell"},
    {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Zen"},
]
SOME = [
    "tests/test_readme.py",
    "tests/solvers/test_rounding.py",
    "tests/estimators/test_estimator_checks.py::test_all_checks",
    "tests/estimators/classification/test_multiclass_classifier.py",
    "tests/estimators/ranking/test_multilabel_ranker.py",
]
PROBE = """
import numpy as np
from numba import njit

@njit(fastmath=True)
def total(x):
    out = 0.0
    for i in range(x.size):
        out += x[i] * x[i]
    return out

x = np.ones(1000)
assert total(x) == 1000.0 == x @ x
"""


def main() -> int:
    """Run the tests under each setting; returns 1 if some fail."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="the whole suite")
    parser.add_argument("arguments", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args()
    chosen = options.arguments or ([] if options.all else SOME)
    failed, n_run = [], 0
    for setting in SETTINGS:
        name = " ".join(f"{key}={value}" for key, value in setting.items()) or "this processor as it is"
        environment = os.environ | setting
        probe = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True)
        if probe.returncode:
            print(f"== {name}: left out, this processor cannot play it", flush=True)
            continue
        print(f"== {name}", flush=True)
        n_run += 1
        if subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *chosen], env=environment, cwd=ROOT
        ).returncode:
            failed.append(name)
    print(f"{n_run - len(failed)} of {n_run} settings pass" + "".join(f"\nfailed: {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
