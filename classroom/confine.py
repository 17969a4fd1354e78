"""What a process puts on itself before it runs a student's code. Nothing of this can be taken off again.

Limits hold on Linux and macOS (macOS does not enforce the one on memory). On Linux 5.13 and newer Landlock closes the
file system as well: only the folder of this run can be written, and only Python and its packages can be read.
"""

import ctypes
import os
import resource
import sys
from pathlib import Path

RULESET, ADD_RULE, RESTRICT = 444, 445, 446  # the three system calls of Landlock, the same on every processor
NO_NEW_PRIVILEGES, KEEP_RIGHTS = 38, 8
NOBODY = 65534
MAY_READ = 1 << 2  # CAP_DAC_READ_SEARCH
EXECUTE, READ_FILE, READ_DIR = 1 << 0, 1 << 2, 1 << 3
RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many rights on files each version knows
BOTH_TCP = 0b11  # bind, connect: since version 4
BOTH_SCOPES = 0b11  # abstract sockets, signals to processes outside: since version 6


def limit(memory: int, cpu: float, file_size: int, processes: int = 0) -> None:
    """Limit what this process may use beyond what it has used: bytes, seconds, bytes a file, new processes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + cpu) + 1
    _set(resource.RLIMIT_CPU, seconds)
    _set(resource.RLIMIT_FSIZE, file_size)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_NOFILE, 64)
    _set(resource.RLIMIT_NPROC, processes)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        _set(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)


def _set(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def leave_root() -> None:
    """Become nobody, if this is the administrator; keep one right, to read Python's own files wherever they are."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    keep = sys.platform == "linux" and libc.prctl(KEEP_RIGHTS, 1, 0, 0, 0) == 0
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    if keep:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the third version of the call, this process
        libc.capset(header, (ctypes.c_uint32 * 6)(MAY_READ, MAY_READ, 0, 0, 0, 0))


def close_files(readable: list[str], writable: str) -> bool:
    """Close the file system but for these folders; say whether this system could.

    Programs cannot be started either, TCP is closed and processes outside get no signals, where the kernel knows how.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(RULESET, None, 0, 1)
    if version < 1:
        return False
    everything = (1 << RIGHTS_BY_VERSION.get(version, 16)) - 1
    net, scopes = BOTH_TCP if version >= 4 else 0, BOTH_SCOPES if version >= 6 else 0
    handled = (ctypes.c_uint64 * 3)(everything, net, scopes)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = libc.syscall(RULESET, handled, size, 0)
    if rules < 0:
        return False
    for folder, rights in [(writable, everything & ~EXECUTE), *((f, READ_FILE | READ_DIR) for f in readable)]:
        if Path(folder).exists():
            _allow(libc, rules, folder, rights if Path(folder).is_dir() else rights & ~READ_DIR)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    closed = libc.syscall(RESTRICT, rules, 0) == 0
    os.close(rules)
    return closed


def _allow(libc: ctypes.CDLL, rules: int, folder: str, rights: int) -> None:
    class Rule(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))

    place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    libc.syscall(ADD_RULE, rules, 1, ctypes.byref(Rule(rights, place)), 0)
    os.close(place)
