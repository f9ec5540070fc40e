"""The token of a store goes to servers that the user named, and to nobody whom only a folder names."""

import base64
from concurrent import futures

import pytest

from knn_ue.errors import InvalidInputError, KnnUeError, StorageError
from knn_ue.folder import Part, write_folder
from knn_ue.stores import MilvusStore, open_store
from knn_ue.stores.milvus_client import MilvusAddress
from knn_ue.stores.options import Normalization

grpc = pytest.importorskip("grpc")
pytest.importorskip("pymilvus")

SECRET = "root:the-password-of-my-own-server"


class Listener(grpc.GenericRpcHandler):
    """Answers nothing, and remembers every token that it is sent."""

    def __init__(self):
        self.tokens, self.n_calls = set(), 0

    def service(self, details):
        self.n_calls += 1
        said = dict(details.invocation_metadata)
        self.tokens |= {base64.b64decode(said["authorization"]).decode()} if "authorization" in said else set()


@pytest.fixture
def listener():
    server, found = grpc.server(futures.ThreadPoolExecutor(2)), Listener()
    server.add_generic_rpc_handlers((found,))
    found.server = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield found
    server.stop(0)


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("KNN_UE_STORE_TOKEN", SECRET)
    monkeypatch.delenv("KNN_UE_STORE_SERVER", raising=False)
    monkeypatch.delenv("KNN_UE_STORE_PLAINTEXT", raising=False)


def reference_to(server, folder, **changed):
    """Write a folder as a stranger would: its store is on a server that they chose."""
    state = {"address": f"milvus://{server}/films?timeout=1", "identity": "0" * 32, "n_columns": 4, "normalize": "none"}
    state |= changed
    write_folder(folder, Part(kind="milvus", state=state, arrays=Normalization.none().to_arrays()))
    return folder


def asked(listener, place):
    with pytest.raises(KnnUeError):
        open_store(place)
    assert listener.n_calls
    return listener.tokens


def test_a_server_that_only_a_folder_names_is_not_sent_the_token(listener, tmp_path):
    assert asked(listener, reference_to(listener.server, tmp_path / "store")) == set()


def test_a_server_that_the_user_named_is_sent_the_token(listener, tmp_path, monkeypatch):
    assert asked(listener, f"milvus://{listener.server}/films?timeout=1") == {SECRET}
    listener.tokens.clear()
    monkeypatch.setenv("KNN_UE_STORE_SERVER", listener.server)

    assert asked(listener, reference_to(listener.server, tmp_path / "store")) == {SECRET}


def test_a_token_for_one_server_is_not_sent_to_another(listener, tmp_path, monkeypatch):
    monkeypatch.setenv("KNN_UE_STORE_SERVER", "127.0.0.1:19530")

    assert asked(listener, reference_to(listener.server, tmp_path / "store")) == set()


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "milvus://root:password@127.0.0.1:1/films"},
        {"address": "file:///etc/passwd"},
        {"address": 5},
        {"n_columns": 0},
        {"normalize": "standardize"},
        {"token": "mine"},
    ],
)
def test_a_reference_that_cannot_be_is_refused_before_anything_is_asked(changed, listener, tmp_path):
    with pytest.raises(StorageError, match="does not hold a valid reference to a store"):
        open_store(reference_to(listener.server, tmp_path / "store", **changed))

    assert listener.n_calls == 0


@pytest.mark.parametrize("host", ["10.1.2.3", "store.example.org", "[2001:db8::1]", "localhost.example.org"])
def test_a_token_travels_in_clear_only_where_the_user_says_so(host, monkeypatch):
    with pytest.raises(InvalidInputError, match=r"for everyone on the network to read: add \?tls=true"):
        MilvusStore.open(f"milvus://{host}/films?timeout=1")
    monkeypatch.setenv("KNN_UE_STORE_PLAINTEXT", "1")

    assert MilvusAddress.parse(f"milvus://{host}/films").token() == SECRET


@pytest.mark.parametrize("address", ["milvus://10.1.2.3/f?tls=true", "milvus://[::1]/f", "milvus://localhost/f"])
def test_a_token_travels_with_tls_and_on_loopback(address):
    assert MilvusAddress.parse(address).token() == SECRET


def test_without_a_token_nothing_is_asked_of_the_network(monkeypatch):
    monkeypatch.delenv("KNN_UE_STORE_TOKEN")

    assert MilvusAddress.parse("milvus://10.1.2.3/films").token() == ""


def test_an_address_survives_a_folder():
    address = MilvusAddress.parse("milvus://[::1]:7/films?consistency=strong&timeout=2.5&tls=true")

    assert MilvusAddress.parse(address.in_full) == address


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("milvus://user:password@host/films", "must hold no user or password"),
        ("milvus:///films", "names no server"),
        ("milvus://host/fil-ms", "named with letters"),
        ("milvus://host/films?tsl=true", "its options are consistency, timeout and tls"),
        ("milvus://host/films?tls=yes", "tls is true or false"),
        ("milvus://host/films?timeout=0", "timeout is 0.1 to 3600 seconds"),
        ("milvus://host/films?timeout=soon", "is not an address"),
        ("milvus://host/films?consistency=weak", "consistency is session or strong"),
        ("milvus://host:99999/films", "is not an address"),
    ],
)
def test_an_address_that_cannot_be_is_refused(address, rule):
    with pytest.raises(InvalidInputError, match=rule):
        MilvusAddress.parse(address)
