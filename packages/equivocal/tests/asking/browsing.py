"""Chromium, the page as a file, and a visit to it without a network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from needs import needs
from tests.cli.commands import run

PAIR = ("during dinner, the woman eats the pizza", "during dinner, the pizza eats the woman")


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
    """The page as the command writes it."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    done = run("page", "--out", path, "--no-open")
    assert done.returncode == 0, done.stderr
    return path


@contextmanager
def visit(browser: Any, file: Path, state: str = "", **context: Any) -> Iterator[Any]:
    """Open the page at a state; what the console says or what is fetched fails the test."""
    opened = browser.new_context(offline=True, reduced_motion="reduce", **context)
    tab = opened.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    fetched: list[str] = []
    tab.on("request", lambda request: fetched.append(request.url))
    tab.goto(file.as_uri() + (f"#{state}" if state else ""))
    tab.wait_for_selector("section.answer")
    yield tab
    opened.close()
    assert said == []
    assert [url for url in fetched if not url.startswith((file.as_uri(), "data:"))] == []


def read(tab: Any, selector: str) -> str:
    """What is written in an element, with ordinary spaces."""
    text: str = tab.locator(selector).first.inner_text()
    return text.replace("\N{NO-BREAK SPACE}", " ")
