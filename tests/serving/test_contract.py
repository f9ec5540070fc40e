"""Schemathesis makes thousands of requests from our own OpenAPI, good and bad; every answer must keep the contract."""

import pytest
from hypothesis import HealthCheck, settings

schemathesis = pytest.importorskip("schemathesis")

# Known to the folder only, not to the schema: labels, ids and the task.
LEFT_OUT = ("positive_data_acceptance",)


@pytest.fixture(scope="module")
def api(asked):
    return schemathesis.openapi.from_asgi("/openapi.json", asked().app)


schema = schemathesis.pytest.from_fixture("api")


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_openapi_promises(case):
    case.call_and_validate(headers={"Host": "127.0.0.1"})
