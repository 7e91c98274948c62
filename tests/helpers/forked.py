"""Processes forked from one that has loaded torch, which saves seconds for each."""

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pefourier.train.run", "pefourier.train.ensembles", "torch.func"])


def enter(work, arguments, environment, out):
    os.environ.update(environment)
    for number in (1, 2):
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.exit(work(*arguments))


class Forked:
    """Run work(*arguments) in a separate process; `stated` is its output on both streams."""

    def __init__(self, work, *arguments, **environment):
        self.file = Path(tempfile.mkdtemp(), "out")
        self.file.touch()
        given = (work, arguments, environment, str(self.file))
        self.process = CONTEXT.Process(target=enter, args=given, daemon=True)
        self.process.start()

    @property
    def stated(self):
        return self.file.read_text().strip()

    def wait_for(self, text):
        """Wait until the text is printed or the process ends; return whether it was printed."""
        while self.process.is_alive() and text not in self.stated:
            time.sleep(0.01)
        return text in self.stated

    def kill(self):
        self.process.kill()
        self.process.join()

    def finished(self, status=0):
        """Wait for the process to end with a status, and return its output."""
        self.process.join(120)
        assert self.process.exitcode == status, self.stated
        return self.stated
