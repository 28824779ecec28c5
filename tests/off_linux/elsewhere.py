"""Run a program as on another system: ``python elsewhere.py darwin PROGRAM``.

For Penstock's own code what that system lacks is not there: names in modules, modules, ``/proc``.
Other packages see this machine as it is, since they have releases of their own for that system.
"""

import builtins
import errno
import os
import runpy
import sys
from fnmatch import fnmatchcase
from types import ModuleType

# As typeshed says, for the modules that Penstock might use.
DARWIN = {
    "os": "EFD_* GRND_* MFD_* O_DIRECT O_PATH O_TMPFILE POSIX_FADV_* P_PIDFD SPLICE_*"
    " copy_file_range eventfd* fdatasync getrandom getres[gu]id *xattr memfd_create pidfd_open"
    " pipe2 posix_f* sched_*affinity splice waitid",
    "signal": "SIGCLD SIGPOLL SIGPWR SIGRT* pidfd_send_signal sigtimedwait sigwaitinfo",
    "select": "EPOLL* epoll",
    "socket": "AF_NETLINK AF_PACKET AF_VSOCK MSG_CMSG_CLOEXEC MSG_MORE SCM_CREDENTIALS SOCK_CLOEXEC"
    " SOCK_NONBLOCK SO_PASSCRED SO_PEERCRED TCP_CORK TCP_KEEPIDLE TCP_QUICKACK TCP_USER_TIMEOUT",
    "mmap": "MADV_DO* MADV_HUGEPAGE MADV_REMOVE MAP_POPULATE",
    "time": "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    "fcntl": "F_*SEAL* F_*PIPE_SZ",
    "resource": "prlimit RUSAGE_THREAD",
}
WIN32 = {
    "os": "EFD_* F_*LOCK F_TEST MFD_* O_ASYNC O_CLOEXEC O_DIRECT* O_[FR]SYNC O_N* O_PATH O_SYNC"
    " O_TMPFILE POSIX_* P_ALL P_PID* RTLD_* SCHED_* SEEK_DATA SEEK_HOLE W[A-Z]* c*own chroot"
    " confstr* copy_file_range environb eventfd* f*chown fchdir fchmod fdatasync fork* fpathconf"
    " fstatvfs get*[gu]id getgroups getenvb getloadavg getp[gr]* getrandom getsid *xattr killpg"
    " lockf memfd_create mkfifo mknod nice openpty pathconf* pidfd_open pipe2 posix_* p*read*"
    " p*write* readv register_at_fork sched_* sendfile set[egprsu]* splice statvfs sync sysconf*"
    " tc*pgrp ttyname uname wait wait3 wait4 waitid writev [gs]et_blocking",
    "signal": "ITIMER_* SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGHUP SIGIO SIGKILL SIGP* SIGQUIT"
    " SIGRT* SIGST* SIGSYS SIGT[RST]* SIGU* SIGVTALRM SIGWINCH SIGX* SIG_[BSU]* alarm *itimer pause"
    " pidfd* pthread_* siginterrupt sigpending sig*wait*",
    "select": "EPOLL* PIPE_BUF POLL* epoll poll",
    "socket": "AF_UNIX AF_NETLINK AF_PACKET AF_VSOCK CMSG_* MSG_CMSG_CLOEXEC MSG_DONTWAIT MSG_EOR"
    " MSG_MORE MSG_NOSIGNAL SCM_* SOCK_CLOEXEC SOCK_NONBLOCK SO_P* SO_REUSEPORT TCP_CORK"
    " TCP_QUICKACK TCP_USER_TIMEOUT recv_fds send_fds",
    "mmap": "MADV_* MAP_* PROT_*",
    "time": "CLOCK_* clock_* pthread_getcpuclockid tzset",
    "asyncio": "*UnixS* *ChildWatcher *unix_*",
}
LACKING = {"darwin": DARWIN, "win32": WIN32}
NO_MODULE = {
    "darwin": {"uvloop", "spwd"},
    "win32": {"uvloop", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios"},
}


class Seen(ModuleType):
    """A module as Penstock's code sees it."""

    def __init__(self, module, patterns=(), **changed):
        super().__init__(module.__name__)
        absent = {n for n in dir(module) for pattern in patterns if fnmatchcase(n, pattern)}
        vars(self).update(_module=module, _absent=absent, **changed)

    def __getattr__(self, name):
        if name in self._absent:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        return getattr(self._module, name)

    def __setattr__(self, name, value):
        setattr(self._module, name, value)


def become(system):
    """Be *system* from now on, for all code of Penstock that is imported later."""
    import ctypes
    import importlib

    def c_library(name, *args, **kwargs):
        if name is None and system == "win32":
            raise TypeError("a library needs a name")
        return object()  # it has none of the functions that only Linux has

    lacking = LACKING[system]
    seen = {
        name: Seen(importlib.import_module(name), names.split())
        for name, names in lacking.items()
        if name not in NO_MODULE[system]
    }
    seen["sys"] = Seen(sys, platform=system)
    seen["ctypes"] = Seen(ctypes, CDLL=c_library)
    real = builtins.__import__

    def importing(name, *args, **kwargs):
        importer = (args[0] if args else kwargs.get("globals")) or {}
        if importer.get("__name__", "").startswith("penstock"):
            if name in NO_MODULE[system]:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in seen:
                return seen[name]
        return real(name, *args, **kwargs)

    builtins.__import__ = importing
    sys.addaudithook(lambda event, args: audit(system, event, args))


def audit(system, event, args):
    """Refuse what the system refuses."""
    path = args[0] if args else None
    if event in ("open", "os.listdir", "os.scandir") and isinstance(path, (str, bytes)):
        if os.fsdecode(path).startswith(("/proc", "/sys/", "/dev/shm")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    elif system == "win32" and event in ("os.rename", "os.remove"):
        for held in args[:2] if event == "os.rename" else args[:1]:
            if is_open(held):
                raise PermissionError(errno.EACCES, "The process cannot access the file", held)


def is_open(path):
    """Say whether this process has *path* open; Python on Windows lets nobody rename it then."""
    try:
        wanted = os.stat(path)
    except OSError:
        return False
    for fd in range(3, 256):
        try:
            found = os.fstat(fd)
        except OSError:
            continue
        if os.path.samestat(found, wanted):
            return True
    return False


if __name__ == "__main__":
    system, program, *rest = sys.argv[1:]
    sys.argv = [program, *rest]
    become(system)
    runpy.run_path(program, run_name="__main__")
