"""Schemathesis makes requests from our own OpenAPI, good and bad ones; every answer must keep the contract."""

import shutil

import pytest
from hypothesis import HealthCheck, settings

from serving_process import serving

schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def api(folders, tmp_path_factory):
    folder = shutil.copytree(folders(), tmp_path_factory.mktemp("contract") / "ue")
    with serving(folder) as server:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")


schema = schemathesis.pytest.from_fixture("api")
# Which labels, ids and kinds of input are right is known to the folder, not to the schema.
LEFT_OUT = [schemathesis.checks.CHECKS.get_one("positive_data_acceptance")]


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_openapi_promises(case):
    case.call_and_validate(excluded_checks=LEFT_OUT)
