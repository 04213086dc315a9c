"""The OpenAPI description against the server, by property-based requests (Schemathesis)."""

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, settings  # noqa: E402


@pytest.fixture
def api(server: str) -> object:
    return schemathesis.openapi.from_url(f"{server}/api/openapi.json")


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_answers_are_as_described(case: object) -> None:
    case.call_and_validate()
