"""What this process listens on sends at once, and so do the connections to it; other sockets are left alone."""

import fcntl
import os
import socket
import subprocess
import sys
import threading

from server.sockets import DESCRIPTORS, send_at_once


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


def test_no_descriptor_is_left_open(tmp_path):
    with (tmp_path / "file").open("w"), socket.socket(socket.AF_INET) as other:
        before = len(os.listdir(DESCRIPTORS))
        for _ in range(5):
            send_at_once()
        assert len(os.listdir(DESCRIPTORS)) == before
        assert other.fileno() >= 0


def test_other_threads_may_go_on_meanwhile():
    """To look among all objects would break a tuple that another thread is making."""
    over, broken = threading.Event(), []

    def make():
        while not over.is_set():
            try:
                tuple(number for number in range(100))
            except SystemError as error:
                broken.append(error)

    makers = [threading.Thread(target=make) for _ in range(2)]
    for maker in makers:
        maker.start()
    for _ in range(20):
        send_at_once()
    over.set()
    for maker in makers:
        maker.join()
    assert not broken


def test_the_locks_of_this_process_on_its_files_are_kept(tmp_path):
    taken = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with (tmp_path / "file").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        send_at_once()
        other = subprocess.run([sys.executable, "-c", taken, str(tmp_path / "file")], capture_output=True, check=False)
    assert other.returncode != 0
