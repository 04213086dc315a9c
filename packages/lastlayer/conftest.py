"""PyTorch for the tests that need it; without it, the module that subclasses its layers is left."""

import importlib
from importlib.util import find_spec
from types import ModuleType

import pytest

from needs import needs

collect_ignore = [] if find_spec("torch") else ["src/lastlayer/torch_layer.py"]


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch, or a skip where it is not installed."""
    needs("torch")
    return importlib.import_module("torch")
