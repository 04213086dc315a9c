"""What tests of samplers share."""

from collections.abc import Iterator

import pytest

from equivocal.sampling.engine import small


@pytest.fixture(scope="module")
def compiled() -> Iterator[None]:
    """Let no problem be small, so that the compiled programs are tested (`test_small` compares)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "MOST_WORK", 0)
        yield
