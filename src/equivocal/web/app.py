"""The application: its routes and errors. Answers are made by `equivocal.asking`.

GET /                         the page
GET /static/…                 its parts
GET /api/health               whether the server is up, and with what
GET /api/world                words, examples, prior variances and steps to choose from
GET /api/comprehend           the answer to `sentence`, as `equivocal ask --json` prints it
GET /api/comprehend.csv       the same with every filler, as a table
GET /api/openapi.json         the description of this API

A new route is also described in `equivocal.web.description`.
"""

from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from equivocal import __version__
from equivocal.asking import Answer, Comprehender
from equivocal.errors import UserError
from equivocal.web.description import describe_api, describe_world
from equivocal.web.guard import LOOPBACK_NAMES, Guard, limit_time
from equivocal.web.schemas import ListQuestion, Question, read_question

SECONDS = 5.0  # for one answer; it takes milliseconds
STATIC = resources.files("equivocal.web") / "static"
FAULTS = {  # of ours; the traceback is in the server's log, not in the answer
    TimeoutError: (503, "the answer took too long; ask again, or ask a shorter sentence."),
    Exception: (500, "something went wrong here; the server's log says what."),
}


def create_app(comprehender: Comprehender, *, hosts: tuple[str, ...] = LOOPBACK_NAMES) -> ASGIApp:
    """Create the whole application for one comprehender.

    Parameters
    ----------
    comprehender : Comprehender
        What answers.
    hosts : tuple of str
        The host names that the server answers to; `*` stands for any.
    """
    world, name = describe_world(comprehender).model_dump(), comprehender.world.name
    fixed = {
        "/api/health": {"status": "ok", "world": name, "version": __version__},
        "/api/world": world,
        "/api/openapi.json": describe_api(comprehender),
    }

    async def comprehend(request: Request) -> Response:
        question = read_question(ListQuestion, request.query_params)
        with limit_time(SECONDS):
            return JSONResponse(answer(question).to_dict(question.top))

    async def tabulate(request: Request) -> Response:
        question = read_question(Question, request.query_params)
        with limit_time(SECONDS):
            return Response(
                answer(question).to_dataframe().to_csv(index=False),
                media_type="text/csv",
                headers={"Content-Disposition": 'attachment; filename="equivocal.csv"'},
            )

    def answer(question: Question) -> Answer:
        return comprehender.answer(
            question.sentence, prior_variance=question.prior_variance, step=question.step
        )

    app = Starlette(
        routes=[
            Route("/", _send_page),
            Mount("/static", StaticFiles(directory=str(STATIC))),
            Route("/api/comprehend", comprehend),
            Route("/api/comprehend.csv", tabulate),
            *(
                Route(path, JSONResponse(content), methods=["GET"])
                for path, content in fixed.items()
            ),
        ],
        exception_handlers={UserError: _explain, HTTPException: _explain}
        | dict.fromkeys(FAULTS, _report_fault),
    )
    return Guard(app, hosts)  # outside, so that answers to faults of ours are guarded too


async def _send_page(_: Request) -> Response:
    return FileResponse(str(STATIC / "index.html"))


async def _explain(_: Request, error: Exception) -> Response:
    """Name the client's mistake."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": f"{error.detail}."}, error.status_code, headers=error.headers)
    return JSONResponse({"error": str(error)}, 400)


async def _report_fault(_: Request, error: Exception) -> Response:
    status, message = next(told for kind, told in FAULTS.items() if isinstance(error, kind))
    return JSONResponse({"error": message}, status)
