"""The other processes of this machine: their CPU time, and which of them are the server's clients.

A client is at the other end of a socket of one of its sessions. Other ends of Unix sockets are told by the
kernel's socket diagnostics (sock_diag(7)), those of TCP by their addresses
(Documentation/networking/proc_net_tcp.rst). What is not told, or hidden, is no client.
"""

import os
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pgassay.environment.linux.processes import PROC, ProcessStat, process_ids, process_stat

_NAMED_MAX = 5
# Less than this share of a processor is not worth a name.
_SHARE_MIN = 0.02
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_SHOW_PEER = 4  # UDIAG_SHOW_PEER
_PEER = 2  # UNIX_DIAG_PEER
_DONE_OR_ERROR = (2, 3)
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIIIII")
_MESSAGE = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")
_ANSWER_BYTES = 1 << 16
_TIMEOUT_S = 1.0
# ::ffff:0:0/96 as /proc/net/tcp6 writes it: four words of the machine's byte order.
_IPV4_IN_IPV6 = f"{0:016X}{int.from_bytes(bytes((0, 0, 255, 255)), sys.byteorder):08X}"


# By number and start, which tell a process from a later one of the same number.
Processes = dict[tuple[int, int], ProcessStat]


def snapshot(proc: Path = PROC) -> Processes:
    """All processes that this account sees; {} where there is no /proc."""
    stats = ((pid, process_stat(pid, proc)) for pid in process_ids(proc))
    return {(pid, stat.started_ticks): stat for pid, stat in stats if stat is not None}


def used_between(before: Processes, after: Processes, postmaster_pid: int) -> dict[int, tuple[str, float]]:
    """Name and CPU seconds of each process that is neither the server's nor pgassay's own.

    A process that began and ended between the two is not seen.
    """
    used: dict[int, tuple[str, float]] = {}
    own = os.getpid()
    for key, process in after.items():
        pid, _ = key
        if postmaster_pid not in (pid, process.parent) and own not in (pid, process.parent):
            earlier_s = before[key].cpu_s if key in before else 0.0
            used[pid] = process.name, process.cpu_s - earlier_s
    return used


def children_of(postmaster_pid: int, processes: Processes) -> list[int]:
    """The server's other processes."""
    return [pid for (pid, _), process in processes.items() if process.parent == postmaster_pid]


def named(used: dict[int, tuple[str, float]], seconds: float) -> dict[str, float]:
    """CPU seconds by name, the greatest first; those that matter."""
    sums: dict[str, float] = {}
    for name, used_s in used.values():
        sums[name] = sums.get(name, 0.0) + used_s
    chosen = sorted(sums, key=lambda name: -sums[name])[:_NAMED_MAX]
    return {name: sums[name] for name in chosen if sums[name] >= _SHARE_MIN * seconds}


def clients_of(postmaster_pid: int, children: Iterable[int], candidates: Iterable[int]) -> set[int]:
    """Those of the candidate processes that are connected to one of the server's children."""
    own = {inode for pid in children for inode in _sockets(pid)} - _sockets(postmaster_pid)
    if not own:
        return set()
    unix = _unix_peers()
    others = {unix[inode] for inode in own if inode in unix} | _tcp_peers(own)
    return {pid for pid in candidates if others & _sockets(pid)}


def _sockets(pid: int) -> set[int]:
    """The inodes of the process's sockets; none where that is hidden."""
    found = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = entry.readlink().name
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    return found


def _unix_peers() -> dict[int, int]:
    """Inode → inode of the other end, of all connected Unix sockets; {} where the kernel doesn't tell."""
    everything = 0xFFFFFFFF
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, everything, 0, _SHOW_PEER, everything, everything)
    header = _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0)
    found: dict[int, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diagnostics:
            diagnostics.settimeout(_TIMEOUT_S)
            diagnostics.send(header + request)
            while _take(diagnostics.recv(_ANSWER_BYTES), found):
                pass
    except OSError:
        return {}
    return found


def _take(answer: bytes, found: dict[int, int]) -> bool:
    """Read the messages of one packet; whether more are to come."""
    at = 0
    while at + _HEADER.size <= len(answer):
        length, kind, *_ = _HEADER.unpack_from(answer, at)
        if kind in _DONE_OR_ERROR or length < _HEADER.size:
            return False
        body = at + _HEADER.size
        inode = _MESSAGE.unpack_from(answer, body)[4]
        attribute, end = body + _MESSAGE.size, at + length
        while attribute + _ATTRIBUTE.size <= end:
            size, name = _ATTRIBUTE.unpack_from(answer, attribute)
            if size < _ATTRIBUTE.size:
                break
            if name == _PEER:
                found[inode] = struct.unpack_from("=I", answer, attribute + _ATTRIBUTE.size)[0]
            attribute += (size + 3) & ~3
        at += (length + 3) & ~3
    return at > 0


def _tcp_peers(own: set[int]) -> set[int]:
    """Inodes of the other ends of these TCP sockets, where they are on this machine."""
    ends: dict[tuple[str, str], int] = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError), Path(f"/proc/net/{name}").open(encoding="ascii") as lines:
            next(lines, "")
            for line in lines:
                words = line.split()
                ends[_plain(words[1]), _plain(words[2])] = int(words[9])
    reached = {(remote, local) for (local, remote), inode in ends.items() if inode in own}
    return {inode for pair, inode in ends.items() if pair in reached}


def _plain(end: str) -> str:
    """An address and port; one of IPv4 in IPv6 (RFC 4291, 2.5.5.2), as Java's sockets have them, as IPv4."""
    return end.removeprefix(_IPV4_IN_IPV6)
