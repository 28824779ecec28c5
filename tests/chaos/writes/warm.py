"""A process that has imported a dispatcher, and forks one for each line that it is given.

At first it prints a line: it has imported all. A line that it is given is JSON: the settings, where
to print, and where to say that it is ready, and at last how it ended. The answer is a line with the
id of the process. So a dispatcher starts in the time that it needs itself: here it is killed often.
"""

import faulthandler
import json
import os
import signal
import sys

from penstock.runtime.signals import LIFELINE_FD, READY_FD
from penstock_dispatcher import process
from penstock_dispatcher.journal import journal, store

FACTS = 4000
"""Bytes of facts behind which there is a snapshot: so there are several in a short life."""

LATE = 20.0
"""Seconds behind which a dispatcher prints where it is: one that does not begin tells why."""

PAGES = 12
"""Pages of the log behind which it is copied into the file."""


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    journal.LEAST, store.PAGES = FACTS, PAGES
    lifeline = os.environ.pop(LIFELINE_FD)
    print("imported", flush=True)  # that is no part of the time in which a dispatcher begins
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            dispatch(order, lifeline)
        print(pid, flush=True)


def dispatch(order, lifeline):
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for fd in (1, 2):
            os.dup2(log, fd)
        said = os.open(order["ready"], os.O_WRONLY)
        os.environ[READY_FD] = str(os.dup(said))
        faulthandler.dump_traceback_later(LATE, file=2)
        os.environ[LIFELINE_FD] = lifeline
        process.run(**order["settings"])
        code = 0
    except SystemExit as exc:
        code = exc.code
    finally:
        os.write(said, b"ended %d\n" % code)
        os._exit(code)


if __name__ == "__main__":
    main()
