"""Answers leave at once: the socket that Streamlit listens on, put right.

Streamlit makes it without naming the protocol, and asyncio takes a socket for TCP only if it says so: Nagle's algorithm stays
on. What is sent in two parts (the head and the body of an answer, messages to a page) then waits for the other side's
acknowledgement, up to 40 ms each time.
"""

import gc
import socket

INTERNET = (socket.AF_INET, socket.AF_INET6)


def send_at_once() -> int:
    """Switch the waiting off for every TCP socket on which this process listens; return how many there are.

    Connections inherit it. Streamlit keeps its socket to itself: it is found among all objects, once, before the server starts.
    """
    found = [each for each in gc.get_objects() if isinstance(each, socket.socket) and _listens(each)]
    for each in found:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return len(found)


def _listens(each: socket.socket) -> bool:
    if each.fileno() < 0 or each.family not in INTERNET or each.type != socket.SOCK_STREAM:
        return False
    return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
