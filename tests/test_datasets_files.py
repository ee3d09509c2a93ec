"""Where data files are looked for, and how they are fetched: from a server on this machine."""

import dataclasses
import hashlib
import http.server
import socket
import threading

import pytest

from febm.datasets import (
    MissingDataError,
    fashion_mnist,
    files,
    gridwatch,
    load_fashion_mnist,
    load_gridwatch,
    load_melbourne,
    melbourne,
    stocks,
)
from febm.datasets.files import DataFiles, Download
from febm.errors import FebmError

CONTENT = b"@data\n" + b"".join(
    b",".join(b"%d.0" % (hour * (day + 1)) for hour in range(24)) + b":1\n" for day in range(4)
)
LOADERS = {
    load_melbourne: "MelbournePedestrian_TRAIN.ts, or melbourne.csv",
    load_gridwatch: "gridwatch_days.csv, or gridwatch.csv, or gridwatch_",
    load_fashion_mnist: "train-images-idx3-ubyte and train-labels-idx1-ubyte and",
}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache, no folder named, and no proxy on the way to this machine."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "cache_folder", lambda: folder)
    monkeypatch.delenv("FEBM_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def server():
    """A server of CONTENT at /good, with the list of paths it was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            found = self.path.startswith("/good")
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(CONTENT) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(CONTENT)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", asked
        running.shutdown()
        thread.join()


def served_from(monkeypatch, *addresses, sha256=None):
    """Let load_melbourne be fetched from there."""
    download = Download("MelbournePedestrian_TRAIN.ts", sha256 or hashlib.sha256(CONTENT).hexdigest(), tuple(addresses))
    monkeypatch.setattr(melbourne, "FILES", dataclasses.replace(melbourne.FILES, downloads=(download,)))


# Fetching


def test_file_is_fetched_once_and_then_comes_from_the_cache(monkeypatch, server, cache):
    address, asked = server
    served_from(monkeypatch, f"{address}/good")
    first, second = load_melbourne(), load_melbourne()
    assert asked == ["/good"]
    assert first.train == second.train
    assert (cache / "MelbournePedestrian" / "MelbournePedestrian_TRAIN.ts").read_bytes() == CONTENT


def test_file_with_another_checksum_is_refused_and_not_kept(monkeypatch, server, cache):
    address, _ = server
    served_from(monkeypatch, f"{address}/good", sha256="0" * 64)
    with pytest.raises(MissingDataError, match=rf"{address}/good \(another sha256 than 0000.*so it was not kept\)"):
        load_melbourne()
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_damaged_file_in_the_cache_is_fetched_again(monkeypatch, server, cache):
    address, asked = server
    served_from(monkeypatch, f"{address}/good")
    path = cache / "MelbournePedestrian" / "MelbournePedestrian_TRAIN.ts"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT[:50])
    assert len(load_melbourne().train) == 3
    assert asked == ["/good"]


def test_second_address_serves_when_the_first_does_not(monkeypatch, server):
    address, asked = server
    served_from(monkeypatch, f"{address}/gone", f"{address}/good")
    load_melbourne()
    assert asked == ["/gone", "/good"]


def test_address_that_is_gone_is_named(monkeypatch, server):
    address, _ = server
    served_from(monkeypatch, f"{address}/gone")
    with pytest.raises(MissingDataError, match=rf"tried {address}/gone \(404 Client Error"):
        load_melbourne()


def test_without_a_network_the_error_says_what_to_put_where(monkeypatch, cache):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    served_from(monkeypatch, f"http://127.0.0.1:{port}/good")
    with pytest.raises(MissingDataError) as caught:
        load_melbourne()
    sentence = str(caught.value)
    assert sentence.startswith(f"load_melbourne: MelbournePedestrian_TRAIN.ts is not in the cache ({cache}")
    assert f"tried http://127.0.0.1:{port}/good (no connection)" in sentence
    assert "put MelbournePedestrian_TRAIN.ts, or melbourne.csv into a folder and give data_home=folder" in sentence
    assert "set FEBM_DATA to it" in sentence


def test_server_that_keeps_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(files, "SECONDS_OF_SILENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        served_from(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}/good")
        with pytest.raises(MissingDataError, match=r"no answer within 0\.2 seconds"):
            load_melbourne()


def test_every_download_is_pinned_by_a_checksum():
    for module in (fashion_mnist, gridwatch, melbourne, stocks):
        for download in module.FILES.downloads:
            assert len(bytes.fromhex(download.sha256)) == 32
            assert all(address.startswith("https://") for address in download.addresses)


# Folders


@pytest.mark.parametrize("load", list(LOADERS))
def test_folder_without_the_file_says_what_to_put_there_and_fetches_nothing(monkeypatch, tmp_path, load):
    monkeypatch.setattr(DataFiles, "_fetched", lambda *_: pytest.fail("a download was tried"))
    with pytest.raises(MissingDataError) as caught:
        load(data_home=tmp_path)
    assert f"{load.__name__}: data_home is '{tmp_path}', which holds no file of this data set" in str(caught.value)
    assert f"put {LOADERS[load]}" in str(caught.value)
    assert "https://" in str(caught.value)


def test_missing_data_are_a_file_not_found_and_an_error_of_febm(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load_melbourne(data_home=tmp_path)
    assert isinstance(caught.value, FebmError)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(MissingDataError, match=r"data_home is .*nowhere', which is not a folder; name one that holds"):
        load_melbourne(data_home=tmp_path / "nowhere")


def test_setting_names_the_folder_and_the_argument_goes_before_it(monkeypatch, tmp_path):
    for name in ("setting", "argument"):
        (tmp_path / name).mkdir()
    (tmp_path / "setting" / "MelbournePedestrian_TRAIN.ts").write_bytes(CONTENT)
    monkeypatch.setenv("FEBM_DATA", str(tmp_path / "setting"))
    assert len(load_melbourne().train) == 3
    with pytest.raises(MissingDataError, match=r"data_home is .*argument'"):
        load_melbourne(data_home=tmp_path / "argument")
    monkeypatch.setenv("FEBM_DATA", str(tmp_path / "argument"))
    with pytest.raises(MissingDataError, match=r"FEBM_DATA is .*argument'"):
        load_melbourne()


def test_file_may_lie_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "MelbournePedestrian").mkdir()
    (tmp_path / "MelbournePedestrian" / "MelbournePedestrian_TRAIN.ts").write_bytes(CONTENT)
    assert len(load_melbourne(data_home=str(tmp_path)).train) == 3


def test_file_in_a_folder_is_taken_as_it_is(monkeypatch, tmp_path, server):
    """No checksum: it may be newer than the one that is known."""
    address, asked = server
    served_from(monkeypatch, f"{address}/good", sha256="0" * 64)
    (tmp_path / "MelbournePedestrian_TRAIN.ts").write_bytes(CONTENT)
    load_melbourne(data_home=tmp_path)
    assert asked == []
