"""The HTTP interface of a really started server: logs sent and resumed, runs read, who may, and the command line beside it."""

import gzip
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from functools import partial
from urllib.parse import quote, unquote, urlsplit

import pytest

from tests.serving import ROOT, Served, serving, wait_for
from tests.storage.desk import line, lines, up_to


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def server(place):
    (place / "logs").mkdir()
    with serving(
        place / "data", place / "server.log", RUNVITALS_WATCH=str(place / "logs"), RUNVITALS_MAX_UPLOAD_MIB="4"
    ) as served:
        yield served


def test_a_server_that_starts_warns_of_nothing(server, place):
    said = (place / "server.log").read_text()
    assert server.url in said
    assert not [word for word in ("No runtime found", "ScriptRunContext", "Warning") if word in said]


def ask(server: Served, method: str, path: str, body=None, **headers: str):
    """Return status and JSON (or text) of an answer."""
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        method, url.path + path, body, given, encode_chunked=body is not None and not isinstance(body, str | bytes)
    )
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, json.loads(text) if response.headers["content-type"] == "application/json" else text


def send(server: Served, name: str, text, offset=None, query="", **headers: str):
    at = "" if offset is None else f"offset={offset}&"
    return ask(server, "POST", f"/api/v1/ingest/{name}?{at}{query}", text, **headers)


def steps(server: Served, run: str):
    found = ask(server, "GET", f"/api/v1/runs/{run}/series/loss")[1]
    assert "step" in found, found
    return found["step"]


def cli(server: Served, *arguments: object, given: bytes | None = None):
    command = [sys.executable, "cli.py", *map(str, arguments), "--json", "--data-dir", str(server.data_dir)]
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, timeout=120)
    return done.returncode, json.loads(done.stdout)


def test_healthz_says_that_the_store_answers(server):
    status, answer = ask(server, "GET", "/healthz")
    assert (status, answer["status"]) == (200, "ok")


def test_only_this_machine_can_reach_it_unless_asked_otherwise(server):
    """127.0.0.2 is an address of this machine too: whoever listens on all of them answers there."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", urlsplit(server.url).port), timeout=5)


def test_a_log_in_pieces_resumed_at_the_offset(server):
    content = lines(1, 40)
    assert send(server, "pieces", content[:1000], 0)[1]["offset"] == 1000
    status, answer = send(server, "pieces", content[2000:], 2000)
    assert (status, answer["error"], answer["offset"]) == (409, "wrong_offset", 1000)
    status, answer = send(server, "pieces", content[answer["offset"] :], answer["offset"])
    assert (status, answer["offset"], answer["rows"]) == (200, len(content), 40)
    assert steps(server, "pieces") == up_to(40)


def test_a_repeated_request_changes_nothing_and_one_that_differs_is_refused(server):
    content = lines(1, 30)
    first = send(server, "again", content, 0)
    assert send(server, "again", content, 0) == first
    assert send(server, "again", content[500:] + line(31), 500)[1]["rows"] == 31
    assert send(server, "again", lines(2, 50), 0)[1]["error"] == "differs"
    assert steps(server, "again") == up_to(31)


def test_the_offset_can_be_a_header_and_is_answered_as_text(server):
    send(server, "header", lines(1, 10), Upload_Offset="0")
    assert send(server, "header", line(12), Upload_Offset="99999")[0] == 409
    assert ask(server, "GET", "/api/v1/ingest/header?plain")[1] == f"{len(lines(1, 10))}\n"
    assert ask(server, "GET", "/api/v1/ingest/never-seen")[1] == {"run": None, "name": "never-seen", "offset": 0, "rows": 0}


def test_gzip_is_unpacked_and_offsets_count_what_it_unpacks_to(server):
    content = lines(1, 50)
    status, answer = send(server, "packed", gzip.compress(content.encode(), mtime=0), 0, Content_Encoding="gzip")
    assert (status, answer["offset"], answer["rows"]) == (200, len(content), 50)
    assert send(server, "odd", "x", Content_Encoding="br")[0] == 415
    assert send(server, "file", gzip.compress(content.encode(), mtime=0), 0)[1]["error"] == "packed"


def test_more_than_a_request_may_have_is_refused_with_the_place_to_go_on(server):
    content = ("x" * 99 + "\n") * 50_000
    status, answer = send(server, "large", content, 0)
    assert (status, answer["error"]) == (413, "too_large")
    at = ask(server, "GET", "/api/v1/ingest/large")[1]["offset"]
    assert 0 < at <= 4 << 20
    assert send(server, "large", content[at : at + 1000], at)[1]["offset"] == at + 1000
    bomb = gzip.compress(bytes(64 << 20), mtime=0)
    assert send(server, "bomb", bomb, 0, Content_Encoding="gzip")[0] == 413


def test_rows_are_there_while_the_request_is_still_open(server):
    go_on = threading.Event()

    def growing():
        yield lines(1, 10).encode()
        go_on.wait(120)
        yield line(11).encode()

    answers = []
    sender = threading.Thread(target=lambda: answers.append(ask(server, "PUT", "/api/v1/ingest/open?offset=0", growing())))
    sender.start()
    wait_for(lambda: ask(server, "GET", "/api/v1/ingest/open")[1]["rows"] == 10)
    go_on.set()
    sender.join()
    assert answers[0][1]["rows"] == 11


def test_what_came_before_a_connection_broke_is_kept(server):
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port)) as raw:
        piece = lines(1, 20).encode()
        head = f"POST /api/v1/ingest/broken?offset=0 HTTP/1.1\r\nHost: {url.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.sendall(head.encode() + f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        time.sleep(1)
    wait_for(lambda: ask(server, "GET", "/api/v1/ingest/broken")[1]["offset"] == len(piece))
    send(server, "broken", line(21), len(piece))
    assert steps(server, "broken") == up_to(21)


def test_an_upload_that_breaks_off_stores_nothing(server):
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port)) as raw:
        head = f"POST /api/v1/upload/half.log HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 100000\r\n\r\n"
        raw.sendall(head.encode() + lines(500, 520).encode())
        time.sleep(0.5)
    time.sleep(1)
    assert "half.log" not in [run["name"] for run in ask(server, "GET", "/api/v1/runs")[1]]


def test_an_upload_is_stored_whole_and_known_the_second_time(server):
    content = lines(300, 340)
    _, first = ask(server, "POST", "/api/v1/upload/whole.log", content)
    _, again = ask(server, "POST", "/api/v1/upload/other.log", content)
    assert (first["rows"], first["known"]) == (41, False)
    assert (again["run"], again["known"]) == (first["run"], True)
    status, answer = ask(server, "POST", "/api/v1/upload/prose.txt", "Dear diary\n" * 30)
    assert (status, answer["error"]) == (422, "no_metrics")


def test_ranks_are_lanes_of_one_run_with_heartbeat_and_clocks(server):
    for rank in range(2):
        text = "".join(f"2024-05-01 10:00:{s:02d},{rank * 200:03d} {line(s)}" for s in range(1, 30))
        assert send(server, "job", text, 0, f"rank={rank}&host=node{rank}")[0] == 200
    _, run = ask(server, "GET", "/api/v1/runs/job")
    assert [(lane["rank"], lane["host"], lane["rows"]) for lane in run["lanes"]] == [(0, "node0", 29), (1, "node1", 29)]
    assert all(0 <= lane["age_seconds"] < 60 for lane in run["lanes"])
    listed = {run["name"]: run for run in ask(server, "GET", "/api/v1/runs")[1]}
    assert (listed["job"]["rows"], listed["job"]["lanes"]) == (58, 2)
    _, points = ask(server, "GET", "/api/v1/runs/job/series/loss")
    assert points["rank"] == [0] * 29 + [1] * 29


def test_what_can_not_be_answered_is_said_in_a_sentence(server):
    send(server, "known", lines(1, 10), 0)
    for path, status, word in [
        ("/api/v1/runs/nobody", 404, "unknown_run"),
        ("/api/v1/runs/nobody/series/loss", 404, "unknown_run"),
        ("/api/v1/runs/known/series/colour", 404, "unknown_metric"),
    ]:
        found, answer = ask(server, "GET", path)
        assert (found, answer["error"]) == (status, word)
        assert len(answer["message"]) > 15
    for query in ("offset=-1", "offset=1e3", "rank=x", "offset=" + "9" * 30):
        assert ask(server, "POST", f"/api/v1/ingest/known?{query}", "x")[0] == 400


@pytest.mark.parametrize("name", ["%2e%2e%2fetc", "a%20b", "日志", "x" * 3000, "%00", "'; drop table runs; --", "<script>"])
def test_a_hostile_name_is_only_a_name(server, name):
    path = f"/api/v1/ingest/{quote(name, safe='%')}"
    status, answer = ask(server, "POST", path, lines(1, 10))
    assert status in (200, 400, 404)
    if status == 200:
        assert unquote(name).startswith(answer["name"][:50])
        assert ask(server, "GET", f"/api/v1/runs/{answer['run']}")[1]["rows"] >= 10


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"X_Forwarded_For": "192.0.2.7"},
        {"Forwarded": "for=192.0.2.7"},
        {"Host": "evil.example"},
    ],
)
def test_without_a_token_only_programs_on_this_machine_may(server, headers):
    for method, path in (("POST", "/api/v1/ingest/evil"), ("GET", "/api/v1/runs")):
        status, answer = ask(server, method, path, lines(1, 10) if method == "POST" else None, **headers)
        assert (status, answer["error"]) == (403, "forbidden")
    assert "evil" not in [run["name"] for run in ask(server, "GET", "/api/v1/runs")[1]]


def test_a_wrong_token_and_commands_without_the_own_token_are_refused(server):
    assert ask(server, "GET", "/api/v1/runs", Authorization="Bearer wrong")[0] == 401
    for path in ("/api/v1/read", "/api/v1/follow", "/api/v1/cost", "/api/v1/compare"):
        assert ask(server, "POST", path, json.dumps({"path": "/etc/passwd"}))[0] == 403


def test_a_line_in_a_watched_folder_of_the_environment_is_there_soon(server, place):
    log = place / "logs" / "watched.log"
    log.write_text(lines(1, 10))
    wait_for(lambda: "watched.log" in [run["name"] for run in ask(server, "GET", "/api/v1/runs")[1]])
    with log.open("a") as file:
        file.write(line(11))
    assert wait_for(lambda: steps(server, "watched.log") == up_to(11))


def test_the_address_of_the_server_is_for_its_user_alone(server):
    path = server.data_dir / "server.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["url"] == server.url


def test_the_command_line_works_through_the_server(server, tmp_path):
    path = tmp_path / "through.log"
    path.write_text(lines(700, 730))
    _, (first,) = cli(server, "ingest", path)
    _, (again,) = cli(server, "ingest", path)
    assert (first["known"], again["known"], first["rows"]) == (False, True, 31)
    path.write_text(lines(700, 740))
    _, (grown,) = cli(server, "ingest", path)
    assert (grown["run"], grown["rows"]) == (first["run"], 41)
    _, listed = cli(server, "runs")
    (run,) = [run for run in listed if run["run"] == first["run"]]
    assert (run["source"], run["offset"], run["bytes"]) == (str(path), path.stat().st_size, path.stat().st_size)
    _, points = cli(server, "series", first["run"], "loss")
    assert points["step"] == list(range(700, 741))
    assert cli(server, "series", first["run"], "colour")[1]["error"] == "UnknownMetric"
    assert cli(server, "series", "nobody", "loss")[1]["error"] == "UnknownRun"
    assert cli(server, "ingest", tmp_path / "nowhere.log")[0] == 4


def test_cost_and_compare_ask_the_server_as_they_ask_the_store(server, tmp_path):
    stored, beside = tmp_path / "stored.log", tmp_path / "beside.log"
    stored.write_text(lines(100, 160))
    beside.write_text(lines(100, 170))
    _, (run,) = cli(server, "ingest", stored)
    _, by_file = cli(server, "cost", stored, "--gpus", 2, "--price", 3)
    code, by_run = cli(server, "cost", run["run"], "--gpus", 2, "--price", 3)
    assert code == 0
    assert by_run["epoch_time_meaning"] == by_file["epoch_time_meaning"]
    assert by_run["elapsed_s"] == by_file["elapsed_s"]
    assert cli(server, "cost", run["run"], "--price", -1)[1]["error"] == "ValueError"
    code, told = cli(server, "compare", run["run"], beside, "--base", beside)
    assert code == 0
    assert [one["name"] for one in told["runs"]] == ["stored", "beside"]
    assert told["base"] == told["runs"][1]["run"]
    assert cli(server, "compare", run["run"], "nobody")[1]["error"] == "UnknownRun"
    assert cli(server, "compare", run["run"], beside, "--gpus", 0)[1]["error"] == "ValueError"


def test_the_standard_input_goes_to_the_server(server):
    content = lines(900, 950).encode()
    code, (first,) = cli(server, "ingest", "-", "--name", "piped", given=content)
    assert (code, first["rows"], first["known"]) == (0, 51, False)
    _, (again,) = cli(server, "ingest", "-", "--name", "piped", given=content)
    assert (again["run"], again["known"]) == (first["run"], True)
    code, (prose,) = cli(server, "ingest", "-", given=b"nothing of interest\n" * 20)
    assert (code, prose["error"]) == (3, "no_metrics")


def test_a_folder_goes_to_the_server(server, tmp_path):
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(lines(40, 60))
    _, found = cli(server, "ingest", tmp_path)
    assert len({one["run"] for one in found}) == 1
    assert {one["rows"] for one in found} == {42}


def test_follow_through_the_server_until_ctrl_c(server, tmp_path):
    follow_and_stop(server, tmp_path)
    assert steps(server, "followed.log") == list(range(2000, 2012))


def follow_and_stop(server, tmp_path):
    log = tmp_path / "followed.log"
    log.write_text(lines(2000, 2010))
    command = [sys.executable, "cli.py", "follow", str(log), "--json", "--data-dir", str(server.data_dir)]
    # Whoever started the tests in the background has taught them to ignore Ctrl-C, and children learn that.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heed) as follower:
        assert json.loads(follower.stdout.readline())["rows"] == 11
        with log.open("a") as file:
            file.write(line(2011))
        assert json.loads(follower.stdout.readline())["last_step"] == 2011
        follower.send_signal(signal.SIGINT)
        assert follower.wait(120) == 0


def test_a_base_path_tokens_and_a_stop_while_somebody_sends(tmp_path):
    options = ("--server.baseUrlPath", "rv")
    environ = {"RUNVITALS_TOKENS": "first,second"}
    with serving(tmp_path / "data", tmp_path / "server.log", options=options, base="/rv", **environ) as served:
        assert ask(served, "GET", "/healthz")[0] == 200
        assert send(served, "job", lines(1, 10), 0)[0] == 401
        assert send(served, "job", lines(1, 10), 0, Authorization="Bearer second", X_Forwarded_For="192.0.2.7")[0] == 200
        assert ask(served, "GET", "/api/v1/runs", X_Forwarded_For="192.0.2.7")[0] == 401
        assert ask(served, "GET", "/api/v1/runs")[0] == 200
        assert cli(served, "runs")[1][0]["rows"] == 10
        url = urlsplit(served.url)
        raw = socket.create_connection((url.hostname, url.port))
        piece = line(11).encode()
        head = f"POST /rv/api/v1/ingest/job HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer first\r\n"
        raw.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        wait_for(lambda: ask(served, "GET", "/api/v1/ingest/job")[1]["rows"] == 11)
        os.kill(served.pid, signal.SIGTERM)
        assert b"503" in raw.recv(4096)
        raw.close()
    assert not (tmp_path / "data" / "server.json").exists()
    assert cli(served, "runs")[1][0]["rows"] == 11


def test_follow_and_standard_input_without_a_server(tmp_path):
    nobody = Served("", tmp_path / "data", 0)
    follow_and_stop(nobody, tmp_path)
    _, (piped,) = cli(nobody, "ingest", "-", given=lines(1, 20).encode())
    assert piped["rows"] == 20
    assert {run["name"]: run["rows"] for run in cli(nobody, "runs")[1]} == {"followed.log": 12, "stdin": 20}


def test_a_stale_address_is_no_server(tmp_path):
    nobody = Served("", tmp_path / "data", 0)
    nobody.data_dir.mkdir()
    (nobody.data_dir / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "token": "x", "pid": 1}))
    assert cli(nobody, "runs") == (0, [])
