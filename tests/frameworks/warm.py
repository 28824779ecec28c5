"""Programs as processes, forked from one that has loaded what each would load for seconds."""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
import warnings
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tensorflow", "torch", "penstock.service"])


class Program:
    """*program* at work, as ``python -W ignore`` runs it: much as a `subprocess.Popen`.

    It has *variables* beside those of this process. What it prints is to be read from `stdout`, and
    its errors are added to a file.
    """

    def __init__(self, program, *args, errors, folder=None, **variables):
        self._errors = Path(errors)
        self._errors.touch()
        env = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        reads, writes = FORKS.Pipe(duplex=False)
        command = [str(program), *map(str, args)]
        place = str(folder or Path.cwd())
        self._process = FORKS.Process(
            target=_run, args=(command, env, place, writes, str(self._errors))
        )
        self._process.start()
        writes.close()
        self.stdout = os.fdopen(os.dup(reads.fileno()))
        reads.close()

    @property
    def pid(self):
        return self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def wait(self, seconds):
        """Return its exit code, once it has ended."""
        self._process.join(seconds)
        assert self.returncode is not None, f"it does not end:\n{self.errors()}"
        return self.returncode

    def said(self, seconds):
        """Return all that it prints until it ends, which it must do well."""
        with self.stdout:
            text = self.stdout.read()
        assert self.wait(seconds) == 0, text + self.errors()
        return text

    def errors(self):
        return self._errors.read_text(errors="replace")[-8000:]

    def kill(self):
        self._process.kill()
        self._process.join()

    def close(self):
        """Read no more of what it prints."""
        self.stdout.close()

    def terminate(self):
        os.kill(self.pid, signal.SIGTERM)


def _run(command, env, place, out, errors):
    with open(errors, "ab") as file:
        os.dup2(file.fileno(), 2)
    os.dup2(out.fileno(), 1)
    out.close()
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(place)
    warnings.simplefilter("ignore")
    for name in [each for each in sys.modules if each.partition(".")[0] == "keras"]:
        del sys.modules[name]  # it came with TensorFlow, and takes its backend as it is loaded
    sys.argv = command
    sys.path[:0] = [str(Path(command[0]).parent), *env.get("PYTHONPATH", "").split(os.pathsep)]
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out
