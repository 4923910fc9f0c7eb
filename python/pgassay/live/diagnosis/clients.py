"""Which processes of this machine are a server's clients: those at the other ends of its sessions' sockets.

Other ends of Unix sockets are told by the kernel's socket diagnostics (sock_diag(7)), those of TCP by their
addresses (Documentation/networking/proc_net_tcp.rst). What is not told, or hidden, is no client.
"""

import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

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
                ends[words[1], words[2]] = int(words[9])
    reached = {(remote, local) for (local, remote), inode in ends.items() if inode in own}
    return {inode for pair, inode in ends.items() if pair in reached}
