"""`PreemptionHandler`: a training loop that stops with all others before its machine goes."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar
from uuid import uuid4

from penstock.errors import Closed, ConfigError, PenstockError
from penstock.preemption.meeting import News, Reports, meeting_of
from penstock.preemption.watchers import RESTART, detected
from penstock.protocol.calls import PreemptionReport, PreemptionVerdict

log = logging.getLogger("penstock.preemption")

T = TypeVar("T")

REPORT_EVERY = 0.25
"""Seconds between two reports."""

AWAY = 5.0
"""Seconds without an answer after which the trainer makes steps without one. If the dispatcher
restarts within this time, no trainer is beyond the agreed step."""

OTHERS_SAVE = 120.0
"""Seconds for which a trainer that has saved waits for the others."""

SAVES = 3.0
"""All trainers stop when this many times the duration of a save is left of the grace period."""


@dataclass(frozen=True)
class TerminationConfig:
    """How a trainer learns of a preemption, and how it ends.

    Args:
        termination_watcher_fn: returns whether there is a notice; a thread calls it repeatedly.
            None asks the platform of this machine, if Penstock knows it, and watches SIGTERM, and
            in tasks of Slurm SIGUSR1.
        exit_fn: called after the save. None exits with the code that makes the platform restart the
            job: 143 on GCE, 42 elsewhere. If *exit_fn* returns, the next step ends the ``with``
            block of the handler, and the program continues after it.
        grace_period: seconds from the notice to the end of the machine. Training continues until
            three times the duration of a save is left. None stops as soon as possible.

    Raises:
        ConfigError: when one of them is of another kind.

    >>> import penstock
    >>> penstock.TerminationConfig(grace_period=30).grace_period
    30
    """

    termination_watcher_fn: Callable[[], bool] | None = None
    exit_fn: Callable[[], None] | None = None
    grace_period: float | None = None

    def __post_init__(self) -> None:
        for name in ("termination_watcher_fn", "exit_fn"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ConfigError(f"TerminationConfig: {name} must be a function, not {given!r}")
        grace: Any = self.grace_period
        number = isinstance(grace, (int, float)) and not isinstance(grace, bool)
        if grace is not None and (not number or not grace >= 0):
            raise ConfigError(
                f"TerminationConfig: grace_period must be seconds of at least 0, not {grace!r}"
            )


class PreemptionHandler:
    """Runs a training loop's steps, and stops all trainers together at a preemption.

    After a notice on one trainer, all trainers agree on one step through the dispatcher. At that
    step, each saves the model and its data position, waits for the others, and exits. Use one
    handler in a process, as a context manager, or `close` it.

    Args:
        iterators: the iterators of datasets that the loop reads; their `state` is saved.
        save_fn: called as ``save_fn(step, states)`` with the number of finished steps and the
            states of *iterators*, by all trainers after the same step.
        config: how notices come and how the trainer ends; see `TerminationConfig`.
        target: the dispatcher through which trainers agree: its address, or ``"env"``. None is the
            dispatcher that the first of *iterators* reads from; without one this trainer is alone.
        group: trainers with the same group name stop together.

    Raises:
        ConfigError: when an argument is of another kind, or this process has another handler.

    >>> import penstock
    >>> elements = iter(Dataset.range(100))
    >>> saved = []
    >>> config = penstock.TerminationConfig(lambda: bool(elements.stats().loop.steps), saved.clear)
    >>> handler = penstock.PreemptionHandler([elements], lambda step, states: None, config)
    >>> with handler:
    ...     handler.run(next, elements), handler.total_run_calls
    (0, 1)
    """

    _there: ClassVar[PreemptionHandler | None] = None

    def __init__(
        self,
        iterators: Iterable[Any],
        save_fn: Callable[[int, Sequence[Any]], None],
        config: TerminationConfig | None = None,
        *,
        target: str | None = None,
        group: str = "training",
    ) -> None:
        self._iterators = list(iterators)
        if not callable(save_fn):
            raise ConfigError(f"PreemptionHandler: save_fn must be a function, not {save_fn!r}")
        config = TerminationConfig() if config is None else config
        if not isinstance(config, TerminationConfig):
            raise ConfigError(f"config must be a TerminationConfig, not {config!r}")
        if not isinstance(group, str) or not group.strip():
            raise ConfigError(f"PreemptionHandler: group must be a name, not {group!r}")
        if PreemptionHandler._there is not None:
            raise ConfigError("this process has a PreemptionHandler already: close it first")
        self._save_fn, self._config, self._group = save_fn, config, group
        self._trainer = f"{platform.node()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._steps, self._began = 0, time.monotonic()
        self._bound, self._alone = 0, False
        self._noticed_at: float | None = None
        self._verdict = PreemptionVerdict(0)
        self._news = News()
        self._save_seconds = 0.0
        self._saved = self._leaving = self._ended = self._host_left = False
        self._told: Closed | None = None
        """The error that ends the loop after *exit_fn* returned."""
        self._over = threading.Event()
        self._watcher = None if config.termination_watcher_fn else detected()
        self._meeting = meeting = meeting_of(target, self._iterators)
        self._reports = Reports(meeting, self._report, self._hear, REPORT_EVERY)
        self._signals: dict[int, Any] = {}
        self._watch()
        PreemptionHandler._there = self
        self._reports.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        self.close()
        return error is not None and error is self._told

    @property
    def total_run_calls(self) -> int:
        """The number of finished steps."""
        return self._steps

    @property
    def noticed(self) -> bool:
        """Whether this process knows of a preemption of a machine of the group."""
        return self._noticed_at is not None or self._verdict.noticed

    def run(self, step_fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return ``step_fn(*args, **kwargs)``, one step; after the agreed step, save and exit.

        Args:
            step_fn: makes one step.
            args: its positional arguments.
            kwargs: its keyword arguments.

        Raises:
            Closed: when it has saved and `TerminationConfig.exit_fn` returned, which ends the
                ``with`` block of this handler; or when it was closed.
            Refused: when the others stopped at an earlier step while the dispatcher did not answer.

        >>> import penstock
        >>> with penstock.PreemptionHandler([], lambda step, states: None) as handler:
        ...     [handler.run(abs, -x) for x in range(3)], handler.total_run_calls
        ([0, 1, 2], 3)
        """
        with self.watch_preemption_scope():
            return step_fn(*args, **kwargs)

    @contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Count the ``with`` block as one step; after the agreed step, save and exit.

        Raises:
            Closed: as `run`.
            Refused: as `run`.

        >>> import penstock
        >>> with penstock.PreemptionHandler([], lambda step, states: None) as handler:
        ...     with handler.watch_preemption_scope():
        ...         handler.total_run_calls
        0
        """
        self._check_open()
        self._await_leave()
        self._check_open()  # it may have stopped here
        yield
        self._steps += 1
        self._stop_where_agreed()

    def save(self) -> None:
        """Call *save_fn* now, for a regular checkpoint; the handler remembers how long that takes.

        All trainers of a job must call it after the same step, because they share one position.

        >>> import penstock
        >>> saved = []
        >>> with penstock.PreemptionHandler([], lambda *what: saved.append(what)) as handler:
        ...     handler.save()
        >>> saved
        [(0, [])]
        """
        began = time.monotonic()
        self._save_fn(self._steps, [iterator.state() for iterator in self._iterators])
        self._save_seconds = time.monotonic() - began
        grace = self._config.grace_period
        if grace is not None and grace < SAVES * self._save_seconds:
            log.warning(
                "grace_period is %g s, and a save takes %.1f s: training stops as soon as there is "
                "a notice",
                grace,
                self._save_seconds,
            )

    def close(self) -> None:
        """Leave the group and stop watching. Idempotent.

        >>> import penstock
        >>> handler = penstock.PreemptionHandler([], lambda step, states: None)
        >>> handler.close()
        """
        if self._over.is_set():
            return
        self._over.set()
        self._leaving = True
        self._reports.stop()
        try:
            self._reports.now()
        finally:  # it may be refused, and signals are given back all the same
            for number, before in self._signals.items():
                signal.signal(number, before)
            if PreemptionHandler._there is self:
                PreemptionHandler._there = None

    # --- the end ---

    def _check_open(self) -> None:
        if self._ended:
            self._told = Closed(
                f"training has stopped and saved at step {self._steps}, and exit_fn returned: "
                "leave the loop, or make its steps within `with PreemptionHandler(...) as "
                "handler:`, which ends then; start the program again to continue"
            )
            raise self._told
        if self._over.is_set():
            raise Closed("this PreemptionHandler was closed: make another one to continue")

    def _await_leave(self) -> None:
        """Wait until the next step is allowed, or the dispatcher has not answered for long."""
        while self._steps >= self._verdict.allowed and not self._over.is_set():
            if self._alone and self._reports.silent_for >= AWAY:
                break
            self._alone |= self._reports.silent_for >= AWAY  # no report on the way may say less
            self._reports.now()
            self._stop_where_agreed()  # it may have heard so behind its last step
            waits = lambda: self._steps >= self._verdict.allowed and not self._over.is_set()  # noqa: E731
            self._news.wait(waits, REPORT_EVERY)
        self._bound = max(self._verdict.allowed, self._steps + 1)

    def _stop_where_agreed(self) -> None:
        """Save and exit at the step that was agreed, unless all stop later.

        Before it stops it says where it is: from then on nobody stops elsewhere. One that is beyond
        the step never stops on its own account: it hears of a later one, or is refused.
        """
        agreed = self._verdict.agreed
        if self._steps >= agreed and (agreed or (self.noticed and self._tells)):
            self._reports.now()
        if self._verdict.agreed and self._steps == self._verdict.agreed:
            self._finish()

    def _finish(self) -> None:
        self._ended = True
        log.warning("all trainers stop at step %d; saving", self._steps)
        self.save()
        self._saved = True
        until = time.monotonic() + OTHERS_SAVE
        while not self._verdict.all_saved and time.monotonic() < until:
            self._reports.now()
            self._news.wait(lambda: not self._verdict.all_saved, REPORT_EVERY)
        self.close()
        exit_fn = self._config.exit_fn
        if exit_fn is not None:
            exit_fn()
            return
        sys.exit(RESTART if self._watcher is None else self._watcher.exit_code)

    # --- messages to and from the dispatcher ---

    @property
    def _tells(self) -> bool:
        """Whether the others are to know of a notice: not before the grace period ends."""
        if self._noticed_at is None:
            return self._verdict.noticed
        grace = self._config.grace_period or 0.0
        left = self._noticed_at + grace - time.monotonic()
        return not self._save_seconds or left <= SAVES * self._save_seconds

    def _report(self) -> PreemptionReport:
        lasted = max(time.monotonic() - self._began, 1e-3)
        return PreemptionReport(
            self._group,
            self._trainer,
            self._steps,
            self._steps / lasted,
            self._noticed_at is not None and self._tells,
            self._saved,
            self._leaving,
            max(self._bound, self._verdict.allowed),
            self._alone,
        )

    def _hear(self, verdict: PreemptionVerdict) -> None:
        def take() -> None:
            self._verdict, self._alone = verdict, False

        self._news.tell(take)

    # --- notices ---

    def _watch(self) -> None:
        ask = self._config.termination_watcher_fn
        if ask is None:
            self._watch_signals()
            if self._watcher is None:
                return
        question = ask or self._watcher.notice  # type: ignore[union-attr]  # one of them is there
        every = REPORT_EVERY if self._watcher is None else self._watcher.every
        thread = threading.Thread(
            target=self._ask_forever, args=(question, every), name="penstock-watcher", daemon=True
        )
        thread.start()

    def _watch_signals(self) -> None:
        numbers = [signal.SIGTERM]
        if "SLURM_JOB_ID" in os.environ:
            numbers.append(signal.SIGUSR1)
        if threading.current_thread() is not threading.main_thread():
            log.warning("signals are not watched: make the PreemptionHandler in the main thread")
            return
        for number in numbers:
            self._signals[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        # SIGTERM is for this process; by SIGUSR1 Slurm says that the job's time ends, on all hosts.
        self._notice(f"signal {signal.Signals(number).name}", host=number == signal.SIGUSR1)

    def _ask_forever(self, ask: Callable[[], bool], every: float) -> None:
        said = ""
        while not self._over.wait(every):
            try:
                if ask():
                    self._notice("the watcher", host=True)
                    return
            except Exception as exc:  # noqa: BLE001  it must never end training
                if str(exc) != said:
                    said = str(exc)
                    log.warning("the preemption watcher failed, and is asked again: %r", exc)

    def _notice(self, by: str, *, host: bool) -> None:
        """Note that this process has to end; with *host* its data workers have to, too."""
        if self._noticed_at is None:
            self._noticed_at = time.monotonic()
            log.warning("this machine is to be taken away, by %s", by)
        else:
            log.warning("another notice by %s: training stops already", by)
        if host and not self._host_left:
            self._host_left = True
            leaving = threading.Thread(target=self._leave_host, name="penstock-leave", daemon=True)
            leaving.start()

    def _leave_host(self) -> None:
        try:
            self._meeting.leave_host()
        except PenstockError as exc:
            log.warning("data workers of this host were not told to hand their tasks over: %s", exc)
