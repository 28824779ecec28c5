"""What one input may do: be read, or be refused with an error of ours, soon, in little memory."""

import resource
import signal
import traceback
import warnings

from penstock.errors import PenstockError

PATIENCE, LATEST = 5.0, 100.0
"""Seconds of processor time that an input may take, and by the clock: others may use the cores."""

MEMORY = 256 << 20
"""Bytes that the process may grow by with one input."""

LONGEST = 20_000
"""Characters of what is said about one."""


_ALARMS = signal.SIGPROF, signal.SIGALRM


class HangError(BaseException):
    """An input took too long."""


class Judge:
    """Has inputs read, while the block lasts: it has the process's alarm."""

    def __enter__(self):
        self._before = {kind: signal.signal(kind, _too_long) for kind in _ALARMS}
        return self

    def __exit__(self, *_exc):
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def judged(self, target, given):
        """Return how *given* ended, and what is wrong with that: nothing, if all is well."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        signal.setitimer(signal.ITIMER_REAL, LATEST)
        outcome, fault = "read", ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.read(given)
        except PenstockError as exc:
            outcome = type(exc).__name__
            if len(str(exc)) > LONGEST:
                fault = f"a message of {len(str(exc)):,} characters: {str(exc)[:300]}"
        except (Exception, HangError) as exc:
            outcome = f"!{type(exc).__name__}"
            fault = "".join(traceback.format_exception(exc)[-4:])[-2000:]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10
        if not fault and grown > MEMORY:
            fault = f"the process grew by {grown >> 20} MiB"
        return outcome, fault


def _too_long(_signum, _frame):
    raise HangError
