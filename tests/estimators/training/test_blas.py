"""The limit of BLAS threads while a model trains, in a process that forks."""

import os
import subprocess
import sys

import pytest

FORKS = """
import os, threading
from crfqn.blas import single_threaded_blas

def train():
    while True:
        with single_threaded_blas():
            pass

threading.Thread(target=train, daemon=True).start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        with single_threaded_blas():
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_trains():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], timeout=60).returncode == 0
