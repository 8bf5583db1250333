"""The HTTP interface to runs: what there is, what a run holds, the points of a metric; and commands of the command line."""

import json
from pathlib import Path
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response

from messages import N_, Text
from server import answers, service
from server.guard import BadRequest, answer
from storage.store import UnknownRun

MAX_COMMAND_BYTES = 1 << 16


async def runs(_: Request) -> Response:
    """Answer with all runs."""
    return answer(await anyio.to_thread.run_sync(answers.runs, service.get()))


async def run(request: Request) -> Response:
    """Answer with all that is known of a run."""
    return answer(await anyio.to_thread.run_sync(answers.run, service.get(), request.path_params["run"]))


async def series(request: Request) -> Response:
    """Answer with every point of a metric of a run."""
    names = request.path_params["run"], request.path_params["metric"]
    return answer(await anyio.to_thread.run_sync(answers.series, service.get(), *names))


async def read(request: Request) -> Response:
    """Read a file or folder of this machine: `{"path": …, "name": …}`; answer with what became of each log."""
    command = await _command_with_path(request)

    def reading() -> list[dict[str, Any]]:
        found = service.get().read_path(Path(command["path"]), name=command.get("name"))
        return [answers.read(service.get(), one) for one in found]

    return answer(await anyio.to_thread.run_sync(reading))


async def follow(request: Request) -> Response:
    """Follow a file of this machine (POST) or no more (DELETE): `{"path": …}`; answer with its run, null while it has none."""
    path = (await _command_with_path(request))["path"]

    def following() -> dict[str, Any]:
        watcher = service.get().watcher
        if watcher is None:
            raise BadRequest(Text(N_("This server watches nothing.")), status=503)
        if request.method == "DELETE":
            watcher.leave(path)
        else:
            watcher.follow(path)
        return {"run": watcher.run_of(path)}

    return answer(await anyio.to_thread.run_sync(following))


async def ask(request: Request) -> Response:
    """Answer with what a run costs, or how runs compare: `{"run" or "runs", …}`, as `server.answers` takes it."""
    command = await _command(request)

    def asking() -> dict[str, Any]:
        try:
            if "run" in command:
                return answers.cost(service.get(), command["run"], command["wishes"])
            return answers.compare(service.get(), command["runs"], command["base"], command["asked"])
        except UnknownRun:  # which is a KeyError too
            raise
        except ValueError as error:
            raise BadRequest(Text("{sentence}", {"sentence": str(error)}), code="wish") from error
        except (KeyError, TypeError) as error:
            raise BadRequest(Text(N_("The request names no run, or asks what there is not."))) from error

    return answer(await anyio.to_thread.run_sync(asking))


async def _command(request: Request) -> dict[str, Any]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_COMMAND_BYTES:
            raise BadRequest(Text(N_("The request is too long.")), status=413)
    try:
        command = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(Text(N_("The request is no JSON."))) from error
    if not isinstance(command, dict):
        raise BadRequest(Text(N_("The request is no JSON.")))
    return command


async def _command_with_path(request: Request) -> dict[str, Any]:
    command = await _command(request)
    if not isinstance(command.get("path"), str) or not command["path"].startswith("/"):
        raise BadRequest(Text(N_("The request must name a path, from / on.")))
    return command
