"""A browser, the page as a file, and a real server on a free port of this machine."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from equivocal.asking.comprehender import Comprehender
from equivocal.asking.source import Source
from equivocal.cli import build_app
from needs import needs


@pytest.fixture(scope="session")
def mind() -> Comprehender:
    """The networks of the paper's world that come with the package."""
    found = Comprehender(Source.choose(world="paper"))
    found.prepare()
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, one for all tests: Playwright runs once in a process."""
    needs("browser")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as one file, as the command writes it."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    result = CliRunner().invoke(build_app(), ["page", "--out", str(path)])
    assert result.exit_code == 0, result.output
    return path


@contextmanager
def running(
    bound: socket.socket, host: str, *minds: Comprehender, **limits: float
) -> Iterator[None]:
    """A server in a thread, as `equivocal serve` runs it, perhaps with other limits."""
    import uvicorn
    from equivocal.asking.serving import configure_server

    served = uvicorn.Server(configure_server(minds, host, **limits))
    thread = threading.Thread(target=served.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not served.started:
        time.sleep(0.01)
    yield
    served.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(scope="session")
def server(mind: Comprehender) -> Iterator[str]:
    """The address of a server with that mind."""
    from equivocal.asking.serving import bind_socket

    bound = bind_socket("127.0.0.1", 0)
    with running(bound, "127.0.0.1", mind):
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
