"""Programs that run as several processes of one training job, and what each printed as JSON."""

import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import Queue

from tests.frameworks.warm import Program

SECONDS = 110
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Ranks:
    """*world* processes of *program*, which have the variables of a launcher."""

    def __init__(self, program, world, *args, log, **variables):
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": world}
        self.processes = [
            Program(
                program, *args, errors=log / f"rank-{rank}.txt", RANK=rank, **master, **variables
            )
            for rank in range(world)
        ]

    def kill(self):
        for process in self.processes:
            process.kill()
            process.close()

    def heard(self):
        """Return the JSON that each process printed behind ``said``; all must end well."""
        texts = said_by(self.processes)
        return [
            list(map(json.loads, re.findall("^said (.*)$", text, re.MULTILINE))) for text in texts
        ]


def said_by(processes):
    """Return all that each of *processes* prints; all must end well."""
    with ThreadPoolExecutor(len(processes)) as threads:
        return list(threads.map(lambda process: process.said(SECONDS), processes))


def run_ranks(program, world, *args, log, **variables):
    ranks = Ranks(program, world, *args, log=log, **variables)
    try:
        return ranks.heard()
    finally:
        ranks.kill()


class Task:
    """A process of a cluster that `TF_CONFIG` describes, and what it prints, line by line."""

    def __init__(self, program, args, role, index, cluster, log):
        task = {"cluster": cluster, "task": {"type": role, "index": index}}
        self._command = [program, *args]
        self._env = {"TF_CONFIG": json.dumps(task), **ONE_THREAD}
        self._log = log / f"{role}-{index}.txt"
        self.start()

    def start(self):
        """Start it, or start it again once it is dead."""
        self._lines = Queue()
        self.process = Program(*self._command, errors=self._log, **self._env)
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
        raise AssertionError(f"it ended before it printed {text!r}:\n{self.process.errors()}")

    def said(self):
        """Return all that it still prints; it must end well."""
        lines = list(self.lines())
        assert self.process.wait(SECONDS) == 0, "\n".join([*lines, self.process.errors()])
        return lines

    def kill(self):
        self.process.kill()


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
