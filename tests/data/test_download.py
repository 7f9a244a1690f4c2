"""Downloads, from a server of our own."""

import functools
import hashlib
import http.server
import os
import threading

import pytest

from mnngp import data
from mnngp.data import image_files as cifar
from mnngp.data import published
from mnngp.errors import DataError, InputError, MnngpError
from tests.data.samples import (
    archive,
    check_cifar,
    check_mnist,
    cifar_files,
    mnist_files,
    small,
    write,
)


class Server(http.server.ThreadingHTTPServer):
    """Serves files from memory; some of them it breaks off."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.broken, self.asked = files, set(), []
        threading.Thread(target=functools.partial(self.serve_forever, 0.01), daemon=True).start()

    @property
    def home(self):
        return f"http://127.0.0.1:{self.server_port}/some/folder/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        self.server.asked.append(name)
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.server.broken else content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    known, packed = small("mnist", mnist_files())
    monkeypatch.setitem(published.COLLECTIONS, "mnist", known)
    server = Server(packed)
    yield server
    server.shutdown()
    server.server_close()


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("progress", [False, True])
def test_fetch(tmp_path, server, progress, capsys):
    folder = tmp_path / "new" / "data"
    paths = data.fetch("mnist", folder, progress, home=server.home)
    assert contents(folder) == {f"mnist/{name}": content for name, content in server.files.items()}
    assert [path.name for path in paths] == list(server.files)
    assert data.find("mnist", folder) == folder / "mnist"
    check_mnist(data.load("mnist", folder))
    if os.name == "posix":
        assert {path.stat().st_mode & 0o666 for path in paths} == {folder.stat().st_mode & 0o666}
    said = capsys.readouterr()
    assert said.out == ""
    assert ("train-images-idx3-ubyte.gz" in said.err) == progress
    # what is there and right is left alone
    times = [path.stat().st_mtime_ns for path in paths]
    server.asked.clear()
    assert data.fetch("mnist", folder, progress, home=server.home.rstrip("/")) == paths
    assert server.asked == []
    assert [path.stat().st_mtime_ns for path in paths] == times


def test_fetch_gets_only_what_is_missing_or_damaged(tmp_path, server):
    write(tmp_path / "mnist", server.files)
    before = contents(tmp_path)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    data.fetch("mnist", tmp_path, False, home=server.home)
    assert server.asked == ["train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz"]
    check_mnist(data.load("mnist", tmp_path))
    assert (
        contents(tmp_path)["mnist/train-images-idx3-ubyte.gz"]
        == before["mnist/train-images-idx3-ubyte.gz"]
    )
    write(tmp_path / "plain", mnist_files())
    server.asked.clear()
    assert {
        path.parent for path in data.fetch("mnist", tmp_path / "plain", False, home=server.home)
    } == {tmp_path / "plain"}
    assert server.asked == []


@pytest.mark.parametrize("before", [None, b"an older, damaged file"])
def test_a_wrong_download_is_not_kept(tmp_path, server, before):
    name = "t10k-images-idx3-ubyte.gz"
    if before is not None:
        (tmp_path / "mnist").mkdir()
        (tmp_path / "mnist" / name).write_bytes(before)
    right = server.files[name]
    server.files[name] = right[:-1] + b"?"
    with pytest.raises(
        DataError, match=f"mnist could not be downloaded.*{name}.*does not match"
    ) as error:
        data.fetch("mnist", tmp_path, False, home=server.home)
    assert hashlib.sha256(right).hexdigest() in str(error.value)
    assert hashlib.sha256(server.files[name]).hexdigest() in str(error.value)
    assert "\n" not in str(error.value)
    left = contents(tmp_path)
    assert left.pop(f"mnist/{name}", None) == before
    # nor anything temporary
    assert set(left) == {"mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"}
    server.files[name] = right
    data.fetch("mnist", tmp_path, False, home=server.home)
    check_mnist(data.load("mnist", tmp_path))


def test_a_download_that_breaks_off(tmp_path, server):
    server.broken.add("train-images-idx3-ubyte.gz")
    with pytest.raises(
        DataError,
        match=r"mnist could not be downloaded \(http.*(broke off|no "
        r"connection|does not match)",
    ) as error:
        data.fetch("mnist", tmp_path, False, home=server.home)
    assert f"into {tmp_path / 'mnist'}" in str(error.value)
    assert contents(tmp_path) == {}


def test_without_a_server(tmp_path, server):
    del server.files["train-images-idx3-ubyte.gz"]
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: the server answers 404"):
        data.fetch("mnist", tmp_path, False, home=server.home)
    home = server.home
    server.shutdown()
    server.server_close()
    with pytest.raises(
        MnngpError,
        match=r"no connection\); put train-images-idx3-ubyte\.gz, .* "
        r"from https://.* into",
    ) as error:
        data.fetch("mnist", tmp_path, False, home=home)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="home must be an address that begins with http"):
        data.fetch("mnist", tmp_path, home="ftp://example.org")


def test_fetch_where_nothing_can_be_written(tmp_path, server):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        data.fetch("mnist", tmp_path / "file", False, home=server.home)


def test_fetch_cifar(tmp_path, server, monkeypatch):
    files = cifar_files(cifar.BINARY)
    content = archive(tmp_path / "served.tar.gz", files, cifar.BINARY.folder).read_bytes()
    for name, batch in files.items():
        monkeypatch.setitem(
            published.CIFAR10.files, name, f"sha256:{hashlib.sha256(batch).hexdigest()}"
        )
    monkeypatch.setitem(
        published.CIFAR10.served,
        "cifar-10-binary.tar.gz",
        f"sha256:{hashlib.sha256(content).hexdigest()}",
    )
    server.files["cifar-10-binary.tar.gz"] = content
    folder = tmp_path / "data"
    write(folder / "cifar-10-batches-bin", files | {"data_batch_1.bin": b"damaged"})
    for _ in range(2):
        assert data.fetch("cifar10", folder, False, home=server.home) == [
            folder / "cifar-10-binary.tar.gz"
        ]
        check_cifar(data.load("cifar10", folder))
    assert server.asked == ["cifar-10-binary.tar.gz"]


def test_published_addresses_and_digests():
    """Those of what is served, as their publishers give them; files and homes are as many as they
    should be.
    """
    assert published.NAMES == ("digits", "mnist", "fashion-mnist", "cifar10")
    for known in published.COLLECTIONS.values():
        digests = [*known.files.values(), *known.served.values()]
        assert all(len(digest) == len("sha256:") + 64 and int(digest[7:], 16) for digest in digests)
        assert len(set(digests)) == len(digests)
        assert known.home.startswith("http") == (known.name != "digits")
    assert [len(known.files) for known in published.COLLECTIONS.values()] == [0, 4, 4, 6]
    assert all(
        digest.startswith("md5:") and len(digest) == 36
        for digest in published.CIFAR10_PYTHON.values()
    )
