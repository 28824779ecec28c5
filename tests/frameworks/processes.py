"""Programs that run as several processes of one training job, and what each printed as JSON."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

SECONDS = 110


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
