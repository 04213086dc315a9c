"""Networks of the example world, with ensembles made by the real samplers, for all tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from equivocal.asking.listeners import Listeners
from equivocal.asking.source import AskSettings, Source
from equivocal.network import Run
from tests.asking.browsing import browser, file

__all__ = ["browser", "file"]  # fixtures

TINY = AskSettings(kept_steps=(0, 1, 4, 17), tolerance=0.05, training={})


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of the tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIVOCAL_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def saved_run(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    small_run.save(folder)
    return folder


@pytest.fixture(scope="session")
def gardener(saved_run: Path, cache: Path) -> Listeners:
    """The second network of two that were trained in the garden."""
    return Listeners(Source.choose(run=saved_run, network=1, settings=TINY))
