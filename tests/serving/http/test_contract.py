"""Schemathesis makes requests from our own OpenAPI, good and bad ones; every answer must keep the contract."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings

from torture.forked_server import serving

schemathesis = pytest.importorskip("schemathesis")
# Which labels, ids and kinds of input are right is known to the folder, not to the schema.
positive_data_acceptance = pytest.importorskip("schemathesis.specs.openapi.checks").positive_data_acceptance

pytestmark = pytest.mark.slow
OPERATIONS = {
    ("POST", "/predict"),
    ("POST", "/explain"),
    ("POST", "/examples"),
    ("DELETE", "/examples/{id}"),
    ("POST", "/refit"),
    ("POST", "/reload"),
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/info"),
    ("GET", "/validation"),
    ("GET", "/drift"),
    ("GET", "/metrics"),
    ("POST", "/adapt"),
    ("POST", "/sample"),
    ("DELETE", "/domains/{name}"),
}


@pytest.fixture(scope="module")
def api(folders, tmp_path_factory):
    folder = shutil.copytree(folders(), tmp_path_factory.mktemp("contract") / "ue")
    with serving(folder) as server:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")


def test_every_address_is_in_the_schema(api):
    assert {(one.ok().method.upper(), one.ok().path) for one in api.get_all_operations()} == OPERATIONS


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS))
def test_every_answer_is_one_that_openapi_promises(method, path, mode, api):
    # The name of a domain is any text: there is no wrong one.
    takes_something = path in ("/predict", "/explain", "/examples", "/examples/{id}", "/adapt", "/sample")
    if mode is schemathesis.GenerationMode.NEGATIVE and not takes_something:
        pytest.skip("there is nothing to send wrongly")

    @given(case=api[path][method].as_strategy(generation_mode=mode))
    @settings(max_examples=40 if takes_something else 2, deadline=None, suppress_health_check=list(HealthCheck))
    def check(case):
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check()
