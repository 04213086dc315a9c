"""Tests, one folder for each package of `equivocal`."""

import os

# Consoles would keep the width that they find here when they are made, whatever a test sets later.
os.environ.pop("COLUMNS", None)
