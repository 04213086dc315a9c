"""PyTorch for the tests that need it."""

import importlib
from types import ModuleType

import pytest

from needs import needs


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch, or a skip where it is not installed."""
    needs("torch")
    return importlib.import_module("torch")
