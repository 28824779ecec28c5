"""Programs that run as several processes of one training job, and what each printed as JSON."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from queue import Queue

SECONDS = 110
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Ranks:
    """*world* processes of *program*, which have the variables of a launcher."""

    def __init__(self, program, world, *args, **variables):
        self.world = world
        port = free_port()
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(program), *map(str, args)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    **{name: str(value) for name, value in variables.items()},
                },
            )
            for rank in range(world)
        ]

    def kill(self):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)

    def heard(self):
        """Return the JSON that each process printed behind ``said``; all must end well."""
        said = [None] * self.world

        def hear(rank):
            said[rank] = self.processes[rank].communicate(timeout=SECONDS)

        threads = [threading.Thread(target=hear, args=(rank,)) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for process, (out, err) in zip(self.processes, said):
            assert process.returncode == 0, out + err
        return [
            list(map(json.loads, re.findall("^said (.*)$", out, re.MULTILINE))) for out, _ in said
        ]


def run_ranks(program, world, *args, **variables):
    ranks = Ranks(program, world, *args, **variables)
    try:
        return ranks.heard()
    finally:
        for process in ranks.processes:
            process.kill()


class Task:
    """A process of a cluster that `TF_CONFIG` describes, and what it prints, line by line."""

    def __init__(self, program, args, role, index, cluster, log):
        task = {"cluster": cluster, "task": {"type": role, "index": index}}
        self._command = [sys.executable, "-W", "ignore", str(program), *map(str, args)]
        self._env = {**os.environ, "TF_CONFIG": json.dumps(task), **ONE_THREAD}
        self._log = log / f"{role}-{index}.txt"
        self.start()

    def start(self):
        """Start it, or start it again once it is dead."""
        self._lines = Queue()
        with self._log.open("a") as errors:
            self.process = subprocess.Popen(
                self._command, env=self._env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        threading.Thread(target=self._hear, args=(self.process.stdout, self._lines)).start()

    @staticmethod
    def _hear(stdout, lines):
        with stdout:
            for line in stdout:
                lines.put(line.rstrip())
        lines.put(None)

    def lines(self):
        """Yield what it prints until it ends."""
        while (line := self._lines.get(timeout=SECONDS)) is not None:
            yield line

    def until(self, text):
        """Return the next line that has *text* in it."""
        for line in self.lines():
            if text in line:
                return line
        raise AssertionError(f"it ended before it printed {text!r}:\n{self.errors()}")

    def said(self):
        """Return all that it still prints; it must end well."""
        lines = list(self.lines())
        assert self.process.wait(SECONDS) == 0, "\n".join([*lines, self.errors()])
        return lines

    def errors(self):
        return self._log.read_text()[-8000:]

    def kill(self):
        self.process.kill()
        self.process.wait()


class Tasks:
    """One program as all tasks of a cluster: so many of each role in *cluster*."""

    def __init__(self, program, *args, log, **cluster):
        with ExitStack() as sockets:
            free = {
                role: [
                    sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)
                ]
                for role, n in cluster.items()
            }
            addresses = {
                role: ["127.0.0.1:{1}".format(*one.getsockname()) for one in ones]
                for role, ones in free.items()
                if role != "evaluator"
            }
        self.of = {
            role: [Task(program, args, role, index, addresses, log) for index in range(n)]
            for role, n in cluster.items()
        }

    def __enter__(self):
        return self.of

    def __exit__(self, *exc):
        for tasks in self.of.values():
            for task in tasks:
                task.kill()
