"""Answers leave at once: the socket that Streamlit listens on, put right.

Streamlit makes it without naming the protocol, and asyncio takes a socket for TCP only if it says so: Nagle's algorithm stays
on. What is sent in two parts (the head and the body of an answer, messages to a page) then waits for the other side's
acknowledgement, up to 40 ms each time.
"""

import os
import socket
import stat

DESCRIPTORS = "/dev/fd"  # of this process, on Linux and macOS
INTERNET = (socket.AF_INET, socket.AF_INET6)


def send_at_once() -> int:
    """Switch the waiting off for every TCP socket on which this process listens; return how many there are.

    Connections inherit it. Streamlit keeps its socket to itself: it is found among the open descriptors. (Not among all
    objects: who takes hold of those while another thread makes a tuple breaks that one.)
    """
    return sum(map(_put_right, os.listdir(DESCRIPTORS) if os.path.isdir(DESCRIPTORS) else ()))


def _put_right(descriptor: str) -> bool:
    """Say whether a descriptor is a TCP socket that listens, and if so let it send at once."""
    try:
        # Only of a socket is a copy made: to close the copy of a file would give up the locks that this process has on it,
        # and with them the warehouse.
        if not stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
            return False
        with socket.socket(fileno=os.dup(int(descriptor))) as each:
            found = _listens(each)
            if found:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found
    except OSError:  # closed since
        return False


def _listens(each: socket.socket) -> bool:
    if each.family not in INTERNET or each.type != socket.SOCK_STREAM:
        return False
    return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
