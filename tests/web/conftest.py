"""A browser, and a real server on a free port with a small mind of the paper's world."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from equivocal.asking import AskSettings, Comprehender, Source
from equivocal.cli.app import app
from equivocal.gestalt import TrainingSettings, train
from equivocal.world import World

pytest.importorskip("starlette", reason="the page needs the extra `web`")

# enough training to know who eats what; the samplers' sizes are those of the other small tests
TRAINING = TrainingSettings(networks=1, sentences=600, epochs=20, hidden=20, gestalt=20)
SETTINGS = AskSettings(
    kept_steps=(0, 4, 17), path_particles=20, particles=40, tolerance=0.05, training={}
)


def _source(folder: Path) -> Source:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIVOCAL_CACHE", str(folder / "cache"))
        return Source.choose(run=folder / "run", settings=SETTINGS)


@pytest.fixture(scope="session")
def mind(paper: World, made_once: Callable[[str, Callable[[Path], None]], Path]) -> Comprehender:
    def make(folder: Path) -> None:
        train(paper, TRAINING).save(folder / "run")
        Comprehender(_source(folder)).prepare()

    found = Comprehender(_source(made_once("web-mind", make)))
    found.prepare()
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, one for all tests: Playwright runs once in a process."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine; on Debian: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as one file, as the command writes it."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    result = CliRunner().invoke(app, ["page", "--out", str(path)])
    assert result.exit_code == 0, result.output
    return path


@contextmanager
def running(mind: Comprehender, bound: socket.socket, host: str) -> Iterator[None]:
    """A server in a thread, as `equivocal serve` runs it."""
    import uvicorn

    from equivocal.web.serving import configure_server

    served = uvicorn.Server(configure_server([mind], host))
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
    from equivocal.web.serving import bind_socket

    bound = bind_socket("127.0.0.1", 0)
    with running(mind, bound, "127.0.0.1"):
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
