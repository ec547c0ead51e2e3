"""The registry: finding, downloading (from a server on this machine), checking and reading datasets."""

import bz2
import contextlib
import gzip
import hashlib
import os
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from problems import ends_within

from crfqn.datasets import Content, DataFile, Dataset, cache_folder, dataset, list_datasets
from crfqn.errors import DataError, DataUnavailableError
from crfqn.readers.dataset_files import parts

ROWS = b"1\ta\t2\t1\t1\t0\t1\t0\n2\tb\t-1\t1\t2\t0\t0\t1\n3\tb\t-1\t2\t1\t0\t1\t1\n"
OTHER_PIXELS = ROWS.replace(b"0\t1\n", b"0\t0\n")
OTHER_COUNTS = ROWS[: ROWS.index(b"3\tb")]
CONTENT = Content(n_items=2, n_positions=3, n_distinct_items=2, n_labels=2)
DATASETS = [
    *(
        "amazon7",
        "banking77",
        "btc",
        "cifar10",
        "conll2000",
        "digits",
        "dutch-upos",
        "dutch-xpos",
        "imageclef07a",
        "lshtc1-task1-validation",
        "lshtc1-task2",
        "mnist",
        "newsgroups",
    ),
    *("ocr", "probablepeople-company", "probablepeople-person", "rcv1", "sector", "stdlib"),
]
UNCHECKED = {"amazon7", "cifar10", "rcv1", "sector"}  # no checksum of the content is known


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("CRFQN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CRFQN_DATA", raising=False)


@pytest.fixture
def tiny(tmp_path) -> Dataset:
    """Two words of 1x2 images; files tiny.gz (checksum known), tiny.data (not known)."""
    packed = gzip.compress(ROWS, mtime=0)
    files = (
        DataFile("tiny.gz", sha256=hashlib.sha256(packed).hexdigest(), size=len(packed)),
        DataFile("tiny.data", addresses=("http://127.0.0.1:9/tiny.data",)),
    )
    entry = Dataset("tiny", "Tiny", "none", "nowhere", "letter-table", CONTENT, files, (1, 2))
    path = tmp_path / "elsewhere.data"
    path.write_bytes(ROWS)
    return replace(entry, content=replace(CONTENT, sha256=entry.load([path]).digest()))


@pytest.fixture
def given(monkeypatch, tmp_path):
    """Write a file into a folder directly inside the one that CRFQN_DATA names."""

    def put(name: str, content: bytes) -> Path:
        path = tmp_path / "data" / "words" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        monkeypatch.setenv("CRFQN_DATA", str(tmp_path / "data"))
        return path

    return put


class Server(BaseHTTPRequestHandler):
    """Answers by path: the rows, cut short, too slowly, other content, nothing for long, or 404."""

    def do_GET(self):
        kind = self.path.strip("/")
        if kind == "missing":
            self.send_error(404)
            return
        if kind == "silent":
            time.sleep(1.5)
        content = {"other": OTHER_COUNTS, "slow": ROWS * 5000}.get(kind, ROWS)
        content = OF_PARTS.get(kind.removesuffix(".txt"), content)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + (10 if kind == "short" else 0)))
        self.end_headers()
        with contextlib.suppress(OSError):
            for begin in range(0, len(content), 2048):
                self.wfile.write(content[begin : begin + 2048])
                if kind == "slow":
                    time.sleep(0.05)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def served(entry: Dataset, *addresses: str) -> Dataset:
    return replace(entry, files=(replace(entry.files[1], addresses=addresses),))


def cached_files() -> list[Path]:
    return [path for path in cache_folder().rglob("*") if path.is_file()]


def test_every_entry_is_complete():
    entries = list_datasets()
    assert [entry.name for entry in entries] == DATASETS
    for entry in entries:
        assert entry.title
        assert entry.licence
        assert entry.source.startswith("http")
        is_unknown = entry.content.at_least or entry.name in UNCHECKED
        assert len(entry.content.sha256) == (0 if is_unknown else 64)
        assert entry.is_embedded == (not entry.files)
        for part in parts(entry.files):  # or a download could not complete
            assert any(file.addresses for file in part) or entry.by_hand
        for file in entry.files:
            assert all(address.isascii() and " " not in address for address in file.addresses)
            assert {len(file.sha256), len(file.sha256_unpacked)} <= {0, 64}


@pytest.mark.parametrize("name", ["", "orc", "../ocr", "ocr.toml"])
def test_unknown_names_list_the_known(name):
    with pytest.raises(DataError, match=f"there are: {', '.join(DATASETS)}$"):
        dataset(name)


def test_digits_need_no_file():
    digits = dataset("digits")
    assert (digits.locate(), digits.fetch(), digits.verify().check) == ((), (), "content")
    assert digits.load().n_train == 1500


def test_files_are_found_in_given_folder_then_cache(tiny, given):
    assert tiny.locate() == ()
    cached = cache_folder() / "tiny" / "tiny.data"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(ROWS)
    assert tiny.locate() == (cached,)
    path = given("tiny.data", ROWS)
    assert tiny.locate() == (path,)
    assert tiny.fetch() == (path,)
    assert tiny.load().labels == [["a", "b"], ["b"]]


def test_a_known_checksum_decides(tiny, given):
    path = given("tiny.gz", gzip.compress(ROWS, mtime=0))
    assert tiny.verify().check == "file"
    path.write_bytes(gzip.compress(OTHER_PIXELS, mtime=0))
    with pytest.raises(DataError, match=r"tiny\.gz: checksum differs: expected sha256 [0-9a-f]{64}, got"):
        tiny.verify()


def test_content_is_checked_where_no_checksum_is_known(tiny, given):
    given("tiny.data", ROWS[ROWS.index(b"3\tb") :] + ROWS[: ROWS.index(b"3\tb")])  # words in another order
    verification = tiny.verify()
    assert (verification.check, verification.is_passed) == ("content", True)
    given("tiny.data", OTHER_PIXELS)
    verification = tiny.verify()
    assert (verification.check, verification.is_passed) == ("counts", False)
    given("tiny.data", OTHER_COUNTS)
    for use in (tiny.verify, tiny.load):
        with pytest.raises(DataError, match=r"1 items \(expected 2\), 2 positions \(expected 3\)"):
            use()


def test_missing_files_say_how_to_get_them(tiny, monkeypatch, tmp_path):
    for use in (tiny.verify, tiny.load):
        with pytest.raises(DataUnavailableError, match=r"CRFQN_DATA is not set.*`crfqn data get tiny`"):
            use()
    monkeypatch.setenv("CRFQN_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataUnavailableError, match="nothing is not a folder"):
        tiny.load()
    monkeypatch.setenv("CRFQN_DATA", str(tmp_path))
    with pytest.raises(DataUnavailableError, match=r"tiny\.gz, tiny\.data.*have none of them"):
        tiny.load()


def test_fetch_takes_the_first_address_that_works(tiny, address, capfd):
    entry = served(tiny, f"{address}/missing", f"{address}/rows", f"{address}/other")
    reports: list[tuple[int, int]] = []
    (path,) = entry.fetch(on_progress=lambda received, total: reports.append((received, total)))
    assert path == cache_folder() / "tiny" / "tiny.data"
    assert path.read_bytes() == ROWS
    assert cached_files() == [path]
    assert reports[-1] == (len(ROWS), len(ROWS))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "the server answered 404"),
        ("silent", r"no answer within 0\.5 s"),
        ("short", "(?i)incomplete|broken"),
        ("slow", "too slow: [0-9]+ of [0-9]+ bytes"),
    ],
)
def test_a_failed_download_leaves_nothing_and_says_why(tiny, address, kind, reason):
    entry = served(tiny, f"{address}/{kind}")
    with ends_within(), pytest.raises(DataUnavailableError, match=reason) as caught:
        entry.fetch(timeout=0.5, limit=1.0)
    text = str(caught.value)
    assert f"{address}/{kind}" in text
    assert f"By hand: save {address}/{kind} as {cache_folder() / 'tiny' / 'tiny.data'}" in text
    assert "CRFQN_DATA" in text
    assert cached_files() == []


def test_no_network(tiny):
    with (
        ends_within(),
        pytest.raises(DataUnavailableError, match=r"host no-such-host\.invalid cannot be found") as caught,
    ):
        served(tiny, "https://no-such-host.invalid/x", "http://127.0.0.1:9/x").fetch(timeout=1.0)
    assert "http://127.0.0.1:9/x: " in str(caught.value)
    assert cached_files() == []


def test_a_wrong_download_is_deleted(tiny, address):
    with pytest.raises(DataError, match=r"was deleted again: .*not the dataset 'tiny'"):
        served(tiny, f"{address}/other").fetch()
    assert cached_files() == []


def test_a_cache_that_cannot_be_written(tiny, address, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRFQN_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataUnavailableError, match="cannot create the folder"):
        served(tiny, f"{address}/rows").fetch()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"', "not a registry entry"),
        ("name = ", "not a registry entry"),
        (
            'name="x"\ntitle=""\nlicence=""\nsource=""\nreader="pdf"\nshape=[1,2]\n'
            "[content]\nn_items=1\nn_positions=1\nn_distinct_items=1\nn_labels=1",
            "unknown readers: pdf",
        ),
    ],
)
def test_broken_registry_entries_are_named(monkeypatch, tmp_path, text, message):
    (tmp_path / "x.toml").write_text(text)
    monkeypatch.setattr("crfqn.readers.datasets.bundled", lambda kind: tmp_path)
    with pytest.raises(DataError, match=rf"x\.toml: {message}"):
        dataset("x")


def test_sizes_are_checked_where_nothing_else_is_known(given):
    content = Content(n_items=3, n_train=2, n_labels=2)
    files = tuple(DataFile(f"{name}.bz2", part=name) for name in ("train", "test"))
    entry = Dataset("plain", "Plain", "none", "nowhere", "svmlight", content, files, by_hand="draw lots")
    with pytest.raises(DataUnavailableError, match=r"Get it by hand: draw lots, or set CRFQN_DATA"):
        entry.fetch()
    given("train.bz2", bz2.compress(b"7 1:2 3:4\n9 2:1\n"))
    given("test.bz2", bz2.compress(b"7 5:1\n"))
    assert (entry.load().n_train, entry.load().inputs.shape) == (2, (3, 6))
    assert (entry.verify().check, entry.verify().is_passed) == ("sizes", True)
    floors = replace(entry, content=replace(content, n_labels=1, at_least=True))
    assert floors.verify().message == "3 items; no checksum is known"
    given("test.bz2", bz2.compress(b"7 5:1\n")[:-4])
    with pytest.raises(DataError, match=r"test\.bz2: the bzip2 file is cut short \([0-9]+ bytes are there\)"):
        entry.load()


TRAIN, TEST, TREE = b"a1 1:2 2:1\nb 2:3\n", b"a2 1:1 7:1\n", b"a a1\na a2\nb\n"
OF_PARTS = {"train": TRAIN, "test": TEST, "tree": TREE}


@pytest.fixture
def in_parts() -> Dataset:
    """Documents in three files, all of which are needed."""
    files = tuple(
        DataFile(
            f"{name}.txt",
            also_named=(f"{name}.txt.gz", f"origin:al/{name}.txt"),
            part="taxonomy" if name == "tree" else name,
            addresses=(f"http://127.0.0.1:9/{name}.txt",),
            sha256_unpacked=hashlib.sha256(content).hexdigest(),
        )
        for name, content in OF_PARTS.items()
    )
    content = Content(n_items=3, n_train=2, n_labels=3, n_features=2, n_nodes=4)
    return Dataset("in-parts", "In parts", "none", "nowhere", "svmlight", content, files)


class TestParts:
    def put(self, given, *names, suffix=".txt"):
        pack = gzip.compress if suffix.endswith("gz") else bytes
        return tuple(given(f"{name}{suffix}", pack(OF_PARTS[name])) for name in names)

    def test_all_are_needed(self, in_parts, given):
        self.put(given, "train", "test")
        assert in_parts.locate() == ()
        with pytest.raises(DataUnavailableError, match=r"missing of its 3 files: tree\.txt\)") as caught:
            in_parts.load()
        assert "set CRFQN_DATA to a folder that has them" in str(caught.value)
        paths = self.put(given, *OF_PARTS)
        assert in_parts.locate() == in_parts.fetch() == paths
        documents = in_parts.load()
        assert (documents.labels, documents.n_train) == (["a1", "b", "a2"], 2)
        assert documents.taxonomy.names == ("a", "b", "a1", "a2")

    @pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
    def test_checksums_are_of_the_unpacked_content(self, in_parts, given, suffix):
        paths = self.put(given, *OF_PARTS, suffix=suffix)
        verification = in_parts.verify()
        assert (verification.paths, verification.check, verification.is_passed) == (paths, "file", True)
        assert verification.message == "the 3 files' sha256 are the registered ones"
        given(f"test{suffix}", gzip.compress(TEST + TEST))
        with pytest.raises(DataError, match=rf"test{suffix}: checksum of the unpacked content differs"):
            in_parts.verify()

    def test_names_with_folders(self, in_parts, monkeypatch, tmp_path):
        folder = tmp_path / "data" / "origin:al"
        folder.mkdir(parents=True)
        for name, content in OF_PARTS.items():
            (folder / f"{name}.txt").write_bytes(content)
        monkeypatch.setenv("CRFQN_DATA", str(tmp_path / "data"))
        assert in_parts.verify().check == "file"

    def test_content_decides_where_a_checksum_is_missing(self, in_parts, given):
        self.put(given, *OF_PARTS)
        digest = in_parts.load().digest()
        files = (replace(in_parts.files[0], sha256_unpacked=""), *in_parts.files[1:])
        entry = replace(in_parts, files=files, content=replace(in_parts.content, sha256=digest))
        assert entry.verify().check == "content"
        given("train.txt", TRAIN.replace(b"2:3", b"2:4"))
        assert entry.verify().check == "counts"
        assert not entry.verify().is_passed
        given("train.txt", TRAIN.replace(b"2:3", b"3:3"))
        with pytest.raises(DataError, match=r"train\.txt, .*: it has 3 features \(expected 2\)"):
            entry.verify()

    def test_only_what_is_missing_is_fetched(self, in_parts, given, address):
        (train,) = self.put(given, "train")
        entry = self.served(in_parts, address)
        cache = cache_folder() / "in-parts"
        assert entry.fetch() == (train, cache / "test.txt", cache / "tree.txt")
        assert sorted(cached_files()) == [cache / "test.txt", cache / "tree.txt"]
        assert entry.load().n_items == 3

    def test_a_wrong_part_takes_the_others_with_it(self, in_parts, given, address):
        (train,) = self.put(given, "train")
        entry = self.served(in_parts, address)
        tree = replace(entry.files[2], addresses=(f"{address}/test.txt",))
        with pytest.raises(DataError, match=rf"{address}/test.txt was deleted again: .*checksum"):
            replace(entry, files=(*entry.files[:2], tree)).fetch()
        assert cached_files() == []
        assert train.is_file()

    def test_a_failed_part_keeps_the_others(self, in_parts, address):
        entry = self.served(in_parts, address)
        missing = replace(entry.files[2], addresses=(f"{address}/missing",))
        with pytest.raises(DataUnavailableError, match=r"By hand: save .*missing as .*tree"):
            replace(entry, files=(*entry.files[:2], missing)).fetch()
        assert len(cached_files()) == 2
        entry.fetch()
        assert entry.verify().check == "file"

    def served(self, entry: Dataset, address: str) -> Dataset:
        files = (replace(file, addresses=(f"{address}/{file.name}",)) for file in entry.files)
        return replace(entry, files=tuple(files))


def test_parts_that_do_not_fit_together_are_named(in_parts, given):
    given("train.txt", TRAIN)
    given("test.txt", TEST)
    path = given("tree.txt", b"a b\nb a\n")
    with pytest.raises(DataError, match=rf"{path}: the taxonomy has a cycle"):
        in_parts.load()


def test_floors(collected):
    stdlib = dataset("stdlib")
    content = replace(stdlib.content, n_items=10**6)
    message = r"stdlib: not the dataset 'stdlib': it has \d+ items \(expected at least 1000000\)"
    with collected():
        verification = stdlib.verify()
        assert (verification.check, verification.is_passed) == ("floors", True)
        with pytest.raises(DataError, match=message):
            replace(stdlib, content=content).load()


REAL_DATA = os.environ.get("CRFQN_DATA")


@pytest.mark.skipif(not REAL_DATA, reason="CRFQN_DATA names no folder with the real files")
@pytest.mark.parametrize("name", [file.name for file in dataset("ocr").files])
def test_real_letters(monkeypatch, name):
    monkeypatch.setenv("CRFQN_DATA", str(REAL_DATA))
    ocr = dataset("ocr")
    ocr = replace(ocr, files=tuple(file for file in ocr.files if file.name == name))
    if not ocr.locate():
        pytest.skip(f"{name} is not there")
    assert ocr.verify().is_passed
    assert ocr.load().digest() == ocr.content.sha256


def check_newsgroups(documents):
    assert (documents.n_items, documents.n_train, len(documents.distinct_labels())) == (18_846, 11_314, 20)
    assert documents.labels[: documents.n_train] == sorted(documents.labels[: documents.n_train])
    tree = documents.taxonomy
    assert {tree.names[k] for k in tree.leaves} == set(documents.labels)
    inner = {tree.names[k] for k in np.flatnonzero(~tree.is_leaf)}
    assert inner == {"comp", "comp.sys", "rec", "rec.sport", "sci", "talk", "talk.politics"}


def check_mnist(documents):
    assert (documents.inputs.shape, documents.n_train) == ((70_000, 784), 60_000)
    assert documents.distinct_labels() == list("0123456789")
    assert documents.labels[:5] == list("50419")
    assert (documents.inputs.data.min(), documents.inputs.data.max()) == (1 / 255, 1)
    assert documents.inputs.indices.dtype == np.int32


@pytest.mark.skipif(not REAL_DATA, reason="CRFQN_DATA names no folder with the real files")
@pytest.mark.parametrize(
    ("name", "check"),
    [
        *(("imageclef07a", None), ("lshtc1-task1-validation", None), ("lshtc1-task2", None)),
        *(("mnist", check_mnist), ("newsgroups", check_newsgroups)),
    ],
)
def test_real_documents(monkeypatch, name, check):
    monkeypatch.setenv("CRFQN_DATA", str(REAL_DATA))
    entry = dataset(name)
    if not entry.locate():
        pytest.skip(f"{name} is not there")
    assert entry.verify().check == "file"
    documents = entry.load()
    assert documents.digest() == entry.content.sha256
    if check is not None:
        check(documents)
