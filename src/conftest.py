"""Modules that need an extra beyond `dev` are searched for doctests only where it is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["equivocal/sampling/torch_layer.py"]
