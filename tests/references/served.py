"""Small models in files, and `crfqn serve` of them in a process of its own."""

import http.client
import json
import re
import subprocess
import sys

from crfqn import ChainCRF


def saved(path, X, y, estimator=ChainCRF, **settings):
    """Train an estimator and save it; return it."""
    model = estimator(l1=0.05, n_threads=1, **settings).fit(X, y)
    model.save(path)
    return model


class Process(subprocess.Popen):
    """`crfqn serve` as a process of its own, on a free port; at the end of a `with` block it has ended.

    It may have so many `descriptors`, where that is said.
    """

    def __init__(self, model, *options, descriptors=None):
        command = [sys.executable, "-W", "error", "-m", "crfqn", "serve", str(model), "--port", "0", *options]
        if descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
        super().__init__(command, stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+);", self.stderr.readline())[1])

    def __exit__(self, *error):
        self.terminate()
        super().__exit__(*error)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def label(self, connection, text):
        connection.request("POST", "/label", json.dumps({"item": text}))
        response = connection.getresponse()
        assert response.status == 200
        return json.loads(response.read())["labels"]
