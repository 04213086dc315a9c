"""The OpenAPI description against the server, by property-based requests (Schemathesis)."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

# of what is described, all but the description itself, which Schemathesis leaves out
PATHS = ("/api/health", "/api/world", "/api/worlds", "/api/comprehend", "/api/comprehend.csv")


@pytest.mark.parametrize(
    ("path", "mode"),
    # what takes no parameters cannot be asked wrongly
    [*((path, "POSITIVE") for path in PATHS), *((path, "NEGATIVE") for path in PATHS[3:])],
)
def test_answers_are_as_described(server: str, path: str, mode: str) -> None:
    """Status codes, types and schemas; bad requests are refused, good ones never break it."""
    schema = schemathesis.openapi.from_url(f"{server}/api/openapi.json")
    assert {operation.ok().path for operation in schema.get_all_operations()} == set(PATHS)
    operation = schema[path]["GET"]
    strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])

    @given(case=strategy)
    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        # most texts that fit the description are no words of the world, and refused
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    ask()
