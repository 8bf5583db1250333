"""The HTTP interface to runs: what there is, what a run holds, the points of a metric; and commands of the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response

from messages import N_, Text, verbatim
from server import answers, service
from server.guard import BadRequest, answer

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
    command = await _command(request, path=str)

    def reading() -> list[dict[str, Any]]:
        found = service.get().read_path(Path(command["path"]), name=command.get("name"))
        return [answers.read(service.get(), one) for one in found]

    return answer(await anyio.to_thread.run_sync(reading))


async def follow(request: Request) -> Response:
    """Follow a file of this machine (POST) or no more (DELETE): `{"path": …}`; answer with its run, null while it has none."""
    path = (await _command(request, path=str))["path"]

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


async def cost(request: Request) -> Response:
    """Answer with what a run costs: `{"run": …, "wishes": {…}}`, as `answers.cost` takes it."""
    command = await _command(request, run=str, wishes=dict)
    return await _wished(lambda: answers.cost(service.get(), command["run"], command["wishes"]))


async def compare(request: Request) -> Response:
    """Answer with how runs compare: `{"runs": […], "base": …, "asked": {…}}`, as `answers.compare` takes it."""
    command = await _command(request, runs=list, asked=dict)
    return await _wished(lambda: answers.compare(service.get(), command["runs"], command.get("base"), command["asked"]))


async def _wished(question: Callable[[], dict[str, Any]]) -> Response:
    """Answer a question in which a person wishes what may not be (ValueError)."""
    try:
        return answer(await anyio.to_thread.run_sync(question))
    except ValueError as error:
        raise BadRequest(verbatim(str(error)), code="wish") from error


async def _command(request: Request, **needs: type) -> dict[str, Any]:
    """Return what is commanded as JSON. Raises BadRequest, also where it lacks what it `needs`, a type by name."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_COMMAND_BYTES:
            raise BadRequest(Text(N_("The request is too long.")), status=413)
    try:
        command = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(Text(N_("The request is no JSON."))) from error
    lacks = [name for name, kind in needs.items() if not isinstance(command, dict) or not isinstance(command.get(name), kind)]
    if lacks:
        raise BadRequest(Text(N_("The request must name: {names}."), {"names": ", ".join(lacks)}))
    if "path" in needs and not command["path"].startswith("/"):
        raise BadRequest(Text(N_("The request must name a path, from / on.")))
    return dict(command)
