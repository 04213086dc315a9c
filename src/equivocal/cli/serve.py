"""`equivocal serve`: the page in the browser, and the JSON API behind it."""

import os
from contextlib import suppress
from typing import Annotated

import typer

from equivocal.cli.ask import NetworkNumber, RunFolder, WorldName, open_comprehender
from equivocal.cli.console import out
from equivocal.errors import UserError
from equivocal.progress import err


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")] = 8000,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    world: WorldName = None,
    run: RunFolder = None,
    network: NetworkNumber = 0,
) -> None:
    """Serve a page to ask sentences on, and its JSON API, until Ctrl-C.

    The first time, every ensemble that the page can show is sampled, which takes a minute or two.
    Only this machine can reach the page unless `--host` says otherwise.
    """
    # an answer's matrices are small: threads of the linear algebra would only wait for each other
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from equivocal.web import serving
    except ModuleNotFoundError as error:
        raise UserError(f"the page needs {error.name}: pip install 'equivocal[web]'.") from None
    bound = serving.bind_socket(host, port)
    if not serving.is_loopback(host):
        err.print(
            f"warning: {host} can be reached from other machines, and anyone there can ask; "
            "leave --host out to keep it to this machine.",
            style="yellow",
            soft_wrap=True,
        )
    comprehender = open_comprehender(world, run, network)
    comprehender.prepare()
    number = bound.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    out.print(f"the page is at http://{shown}:{number}/ (Ctrl-C ends it)", soft_wrap=True)
    with suppress(KeyboardInterrupt):  # the way to stop it
        serving.serve(comprehender, bound, host)
