"""Start a host's processes, and end them all when its script ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

from penstock.environment.cluster import ClusterEnvironment, Role
from penstock.environment.detect import cluster_environment
from penstock.environment.own_variables import TARGET
from penstock.errors import ConfigError, PenstockError
from penstock.runtime import signals
from penstock.runtime.linux import check_service, end_with_parent
from penstock.runtime.settings import to_env
from penstock_cluster.cli.client import errors, screen
from penstock_cluster.cli.launch.job_end import LINGER, LOOK_EVERY, JobEnd, JobWatch, await_others
from penstock_cluster.cli.launch.plan import LaunchPlan, launch_plan, look_around, target_of
from penstock_cluster.cli.status import look
from penstock_cluster.local import remove_temporary, temporary_folder
from penstock_cluster.member import Member, look_after
from penstock_dispatcher.config import DispatcherConfig
from penstock_worker.config import WorkerConfig

START_WITHIN = 120.0
"""Seconds within which a member must answer: the dispatcher's host may start later."""

GONE = 10.0
"""Seconds of silence after which data workers take it that their dispatcher has ended."""

ABANDONED = 120.0
"""The same for a script that serves: a restarted chief must find its servers."""

SCRIPT_ENDS = 5.0
"""Seconds that a script may take to end after SIGTERM."""

PASSED_ON = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)  # the command loads anywhere
)
"""Signals that are passed on to the script."""

_SIGUSR1 = getattr(signal, "SIGUSR1", None)


def run(command: Sequence[str], data_workers: int | None, work_dir: str | None) -> int:
    """Run *command* with the processes of this host's role; return its exit code.

    Raises:
        ConfigError: when variables are malformed, or a member ended at its start.
        WaitedTooLong: when the dispatcher of this host does not answer.
    """
    check_service("penstock run")
    place = cluster_environment()
    plan = launch_plan(place, data_workers, look_around(target_of(place)))
    if plan.script and not command:
        raise ConfigError(f"this host is a {place.role.value}, and there is no script to run")
    say(plan.words(place))
    with ExitStack() as held:
        wanted = held.enter_context(_signals())
        dispatcher = None
        if plan.dispatcher:
            folder = work_dir
            if not folder:
                temporary = temporary_folder()
                held.callback(remove_temporary, temporary)
                folder = str(temporary)
            dispatcher = held.enter_context(_dispatcher(plan, folder, _linger(place)))
            plan = replace(plan, target=dispatcher.address)
        over = _members(plan, dispatcher, wanted, held)
        if not plan.script:
            return _serve(plan, wanted)
        if _is_server(place):
            watch = partial(_end_with_job, plan.target, wanted, over)
            threading.Thread(target=watch, name="penstock-job", daemon=True).start()
        code = _script(command, plan, wanted)
        if dispatcher is not None and code == 0 and not wanted.leaves.is_set():
            servers, trainers = _has_servers(place), place.num_consumers or 1
            await_others(plan.target, wanted.over, trainers, say, have_servers=servers)
        elif dispatcher is not None:
            dispatcher.end()  # the job may resume from a checkpoint: do not report it as over
        return code


def _members(
    plan: LaunchPlan, dispatcher: Member | None, wanted: Wanted, held: ExitStack
) -> threading.Event:
    """Start data workers and restart them until *held* ends; return the event that it then sets."""
    workers = [_worker(plan, number) for number in range(plan.data_workers)]
    over = threading.Event()
    starting = partial(_start, workers, dispatcher, over)
    starter = threading.Thread(target=starting, name="penstock-run", daemon=True)
    starter.start()
    # In the end from the last to the first: a worker that waits for its dispatcher is not
    # waited for.
    held.callback(starter.join)
    part = partial(_part, workers, plan.target, wanted, over)
    threading.Thread(target=part, name="penstock-part", daemon=True).start()
    held.callback(_end, workers, hand_over=dispatcher is None)
    held.callback(over.set)
    return over


def _has_servers(place: ClusterEnvironment) -> bool:
    """Return whether hosts run TensorFlow servers, which end when the chief's script has ended."""
    return bool(place.addresses.get(Role.PS.value))


def _is_server(place: ClusterEnvironment) -> bool:
    return _has_servers(place) and place.role in {Role.PS, Role.WORKER} and not place.is_chief


def _linger(place: ClusterEnvironment) -> float:
    """Return for how many seconds this host's dispatcher tells other hosts that the job is over."""
    return LINGER if _has_servers(place) or place.addresses.get(Role.DATA_WORKER.value) else 0.0


def say(text: str) -> None:
    """Print a line about what runs here."""
    screen.print(f"penstock run: {text}", highlight=False)


class Wanted:
    """The signals received; they are passed on to the script while it runs."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.leaves = threading.Event()
        """Set by a notice that this host will be taken away."""
        self.script: subprocess.Popen[bytes] | None = None
        self.job_over = False
        """Whether the script was ended because its job was over."""

    def take(self, number: int) -> None:
        """Pass signal *number* on to the script; without a script, end the servers."""
        if number == signal.SIGTERM or (number == _SIGUSR1 and "SLURM_JOB_ID" in os.environ):
            self.leaves.set()
        script = self.script
        if script is not None:
            with suppress(ProcessLookupError):
                script.send_signal(number)
        if number in (signal.SIGTERM, signal.SIGINT):
            self.over.set()


@contextmanager
def _signals() -> Iterator[Wanted]:
    wanted = Wanted()
    before = {
        number: signal.signal(number, lambda came, _frame: wanted.take(came))
        for number in PASSED_ON
    }
    try:
        yield wanted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _dispatcher(plan: LaunchPlan, folder: str, linger: float) -> Iterator[Member]:
    port = int(plan.target.rpartition(":")[2])
    config = DispatcherConfig.from_env(host=plan.bind, port=port, work_dir=folder)
    env = {**to_env(config), signals.LINGER: str(linger)}
    member = Member("penstock_dispatcher", "dispatcher", env, START_WITHIN, linger)
    try:
        member.wait_ready(member.launch(), time.monotonic() + START_WITHIN)
        yield member
    finally:
        member.terminate()
        member.close()


def _worker(plan: LaunchPlan, number: int) -> Member:
    config = WorkerConfig.from_env(
        dispatcher_address=plan.target,
        host=plan.bind,
        port=0,  # PENSTOCK_PORT would be for each of them, and the dispatcher
        dispatcher_timeout=START_WITHIN,
    )
    if plan.bind != plan.host:
        config = replace(config, worker_address=f"{plan.host}:%port%")
    return Member(
        "penstock_worker", f"data worker {number}", to_env(config), START_WITHIN, config.drain
    )


def _start(workers: list[Member], dispatcher: Member | None, over: threading.Event) -> None:
    """Start data workers beside the script, and watch all members until *over* is set."""
    started = []
    for worker in workers:
        try:
            worker.wait_ready(worker.launch(), time.monotonic() + START_WITHIN)
        except PenstockError as exc:
            if not over.is_set():
                errors.print(f"penstock run: {exc}", markup=False)
        else:
            started.append(worker)
    look_after(dispatcher, started, over, say)


def _part(workers: list[Member], target: str, wanted: Wanted, over: threading.Event) -> None:
    """After a notice, have data workers hand over their tasks, if there are other workers.

    Without other workers, the script needs these for its last steps.
    """
    while not over.is_set():
        if not wanted.leaves.wait(LOOK_EVERY):
            continue
        mine = {worker.address for worker in workers}
        try:
            known = look(target).stats.workers
        except PenstockError:
            over.wait(LOOK_EVERY)  # it may be busy, or be starting again
            continue
        if mine and any(one.address not in mine and not one.draining for one in known):
            say("this host is to be taken away: its data workers hand their tasks over")
            _terminate(workers)
        return


def _terminate(workers: list[Member]) -> None:
    """End data workers, all at the same time: each hands its tasks over."""
    ending = [threading.Thread(target=worker.terminate) for worker in workers]
    for one in ending:
        one.start()
    for one in ending:
        one.join()


def _end(workers: list[Member], *, hand_over: bool) -> None:
    """End data workers for good.

    They *hand over* their tasks if the job continues. It ends if its dispatcher ends too.
    """
    if hand_over:
        _terminate(workers)
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.close()


def _script(command: Sequence[str], plan: LaunchPlan, wanted: Wanted) -> int:
    """Run the script; return its exit code, or 128 plus the number of the signal that ended it."""
    program = [sys.executable, *command]
    env = {**os.environ, TARGET: plan.target}
    # A group of its own: Ctrl-C reaches it once, through us.
    with subprocess.Popen(  # noqa: S603  what the user asked for
        program,
        env=env,
        process_group=0,
        preexec_fn=end_with_parent(),  # noqa: PLW1509
    ) as script:
        wanted.script = script
        code = script.wait()
        wanted.script = None
    if wanted.job_over:
        return 0
    return 128 - code if code < 0 else code


def _end_with_job(target: str, wanted: Wanted, over: threading.Event) -> None:
    """End a script that serves (it runs graphs, or keeps variables) once its job is over."""
    state = JobWatch(target, ABANDONED).wait(over)
    script = wanted.script
    if over.is_set() or script is None:
        return
    wanted.job_over = state is JobEnd.OVER
    why = "is over" if wanted.job_over else f"has had no dispatcher at {target} for {ABANDONED:g} s"
    say(f"the job {why}: the script is told to end")
    with suppress(ProcessLookupError):
        script.terminate()
    if not over.wait(SCRIPT_ENDS):
        with suppress(ProcessLookupError):
            script.kill()


def _serve(plan: LaunchPlan, wanted: Wanted) -> int:
    """Serve until a signal, or until the dispatcher of data workers ends."""
    if plan.dispatcher:
        wanted.over.wait()
    elif JobWatch(plan.target, GONE).wait(wanted.over) is not JobEnd.RUNS:
        say(f"the dispatcher at {plan.target} has ended")
    return 0
