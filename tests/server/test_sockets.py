"""What this process listens on sends at once, and so do the connections to it; other sockets are left alone."""

import socket

from server.sockets import send_at_once


def nodelay(each: socket.socket) -> bool:
    return bool(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_a_listening_socket_and_its_connections_send_at_once():
    with socket.socket(socket.AF_INET) as listening, socket.socket(socket.AF_INET) as other, socket.socket() as client:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        assert not nodelay(listening)
        assert send_at_once() >= 1
        assert nodelay(listening)
        assert not nodelay(other)
        client.connect(listening.getsockname())
        accepted, _address = listening.accept()
        with accepted:
            assert nodelay(accepted)


def test_a_closed_socket_is_no_trouble():
    closed = socket.socket(socket.AF_INET)
    closed.close()
    before = send_at_once()
    with socket.socket(socket.AF_UNIX) as local:
        assert send_at_once() == before
        assert local.fileno() >= 0
