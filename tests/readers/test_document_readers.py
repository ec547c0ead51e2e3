"""Readers of classification data: svmlight, hierarchical ARFF, 20 Newsgroups, MNIST, and `Documents` itself.

Small files for every format and every complaint; the real ones where the environment variable CRFQN_DATA names their
folder (or the folder around it).
"""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from crfqn.errors import DataError, DataUnavailableError, InputError
from crfqn.model.featurizers import Numbers
from crfqn.readers import read
from crfqn.readers.arff import read_hierarchical_arff
from crfqn.readers.datasets import read_files
from crfqn.readers.images import CIFAR_PIXELS, read_cifar, read_idx, read_labelled_images
from crfqn.readers.labelled_items import Documents
from crfqn.readers.svmlight import read_svmlight
from crfqn.readers.texts import groups_tree, read_newsgroups
from crfqn.taxonomy.tree import LabelTree

FOLDER = os.environ.get("CRFQN_DATA")


def real(name: str) -> Path:
    """The file in CRFQN_DATA or in a folder directly in it; the test is skipped where it is not there."""
    folders = [Path(FOLDER), *sorted(p for p in Path(FOLDER).iterdir() if p.is_dir())] if FOLDER else []
    found = next((folder / name for folder in folders if (folder / name).is_file()), None)
    return found or pytest.skip(f"needs {name} in CRFQN_DATA")


@pytest.fixture
def write(tmp_path: Path):
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write_file


def edges(tree: LabelTree) -> set:
    return {(tree.names[p] if p >= 0 else None, tree.names[k]) for k, p in enumerate(tree.parents)}


# Documents


def rows(*values) -> csr_array:
    return csr_array(np.array(values, dtype=float))


def test_digest_ignores_the_order_and_the_storage_of_documents():
    whole = Documents(rows([1, 0, 2], [0, 3, 0]), ["a", "b"])
    assert whole.digest() == Documents(rows([0, 3, 0], [1, 0, 2]), ["b", "a"]).digest()
    assert whole.digest() == Documents(rows([1, 0, 2, 0], [0, 3, 0, 0]), ["a", "b"]).digest()
    scattered = csr_array(
        (
            np.array([2.0, 0.0, 1.0, 1.0, 2.0], dtype=np.float32),
            np.array([2, 1, 0, 1, 1]),
            np.array([0, 3, 5]),
        ),
        shape=(2, 3),
    )
    assert whole.digest() == Documents(scattered, ["a", "b"]).digest()
    assert scattered.indices.tolist() == [2, 1, 0, 1, 1]  # the caller's matrix stays as it was
    for other in (
        Documents(rows([1, 0, 2], [0, 3, 0]), ["b", "a"]),
        Documents(rows([1, 0, 2], [0, 4, 0]), ["a", "b"]),
        Documents(rows([1, 2, 0], [0, 3, 0]), ["a", "b"]),
        Documents(rows([1, 0, 2]), ["a"]),
        Documents(rows([1, 0, 0], [2, 3, 0]), ["a", "b"]),
    ):
        assert other.digest() != whole.digest()


def test_digest_of_texts():
    texts = Documents(["x", 'y"z\udc80'], ["a", "b"])
    assert texts.digest() == Documents(['y"z\udc80', "x"], ["b", "a"]).digest()
    assert texts.digest() != Documents(["x", 'y"z\udc80'], ["b", "a"]).digest()
    assert texts.digest() != Documents(["y", 'y"z\udc80'], ["a", "b"]).digest()
    assert len(texts.digest()) == 64


def test_concatenate_widens_the_narrower_matrix():
    train, test = Documents(rows([1, 2]), ["b"]), Documents(rows([0, 0, 3], [4, 0, 0]), ["a", "b"])
    whole = train.joined(test)
    assert whole.inputs.toarray().tolist() == [[1, 2, 0], [0, 0, 3], [4, 0, 0]]
    assert (whole.labels, whole.n_train, whole.n_items) == (["b", "a", "b"], 1, 3)
    assert whole.distinct_labels() == ["a", "b"]
    assert test.joined(train).inputs.toarray().tolist() == [[0, 0, 3], [4, 0, 0], [1, 2, 0]]
    assert train.inputs.shape == (1, 2)
    texts = Documents(["one"], ["a"]).joined(Documents(["two", "three"], ["a", "b"]))
    assert (texts.inputs, texts.n_train) == (["one", "two", "three"], 1)


def test_concatenate_joins_names_and_taxonomies():
    one = Documents(rows([1]), ["x"], LabelTree.from_edges([("t", "x")]), feature_names=["f"])
    two = Documents(rows([1, 2]), ["y"], LabelTree.from_edges([("t", "y")]), feature_names=["f", "g"])
    whole = one.joined(two)
    assert whole.feature_names == ["f", "g"]
    assert edges(whole.taxonomy) == {(None, "t"), ("t", "x"), ("t", "y")}
    bare = Documents(rows([1]), ["x"], feature_names=["f"])
    assert one.joined(bare).taxonomy is bare.joined(one).taxonomy is one.taxonomy
    assert one.joined(Documents(rows([2]), ["x"], LabelTree.from_edges([("t", "x")]), feature_names=["f"])
                       ).taxonomy is one.taxonomy  # fmt: skip


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (Documents(["one"], ["a"]), Documents(rows([1]), ["a"]), "training part holds texts, .* a matrix"),
        (Documents(rows([1]), ["a"]), Documents(["one"], ["a"]), "training part holds a matrix, .* texts"),
        (
            Documents(rows([1]), ["a"], feature_names=["f"]),
            Documents(rows([1]), ["a"]),
            "the training part has feature names, the test part has none",
        ),
        (
            Documents(rows([1, 2]), ["a"], feature_names=["f", "g"]),
            Documents(rows([1, 2]), ["a"], feature_names=["f", "h"]),
            "column 1 is 'g' in the training part, 'h' in the test part",
        ),
        (
            Documents(rows([1]), ["a"], LabelTree.from_edges([("t", "a")])),
            Documents(rows([1]), ["a"], LabelTree.from_edges([("u", "a")])),
            "'a' has two parents",
        ),
    ],
)
def test_parts_that_do_not_fit(train, test, message):
    with pytest.raises(InputError, match=message):
        train.joined(test)


def test_columns_without_an_entry_in_training_are_left_out():
    matrix = rows([0, 1, 0, 2], [0, 3, 0, 0], [4, 0, 0, 5])
    numbers, train = Numbers.fit(matrix[:2], None, "none")
    assert train.toarray().tolist() == [[1, 2], [3, 0]]
    assert numbers.transform(matrix).toarray().tolist() == [[1, 2], [3, 0], [0, 5]]
    assert numbers.names == ["1", "3"]
    assert Numbers.fit(matrix, list("wxyz"), "none")[0].names == ["w", "x", "z"]


# svmlight


def read_rows(path, ignore_features=()):
    found = read_svmlight(path, ignore_features, allows_several=False)
    return found.inputs, found.labels


@pytest.mark.parametrize("name", ["docs.txt", "docs.txt.gz"])
def test_svmlight(write, name):
    text = "1139 0:7 12:3 4:2.5 # a comment with 5:6\r\n\n# nothing else\n01 3:1e-1 7:0\n2\n"
    matrix, labels = read_rows(write(name, text), ignore_features={0})
    assert labels == ["1139", "01", "2"]
    assert (matrix.shape, matrix.dtype, matrix.nnz) == ((3, 13), np.float64, 3)
    assert [matrix[0, 4], matrix[0, 12], matrix[1, 3]] == [2.5, 3, 0.1]
    assert matrix.indices.tolist() == [4, 12, 3]
    with_zero, _ = read_rows(write(name, text))
    assert (with_zero.nnz, with_zero[0, 0]) == (4, 7)
    assert read_rows(write(name, text), ignore_features={0, 12})[0].shape == (3, 5)
    assert read_rows(write(name, "1 0:5\n2\n"), {0})[0].shape == (2, 0)


def test_svmlight_agrees_with_scikit_learn(write):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    random = np.random.default_rng(0)
    matrix = csr_array(random.normal(size=(40, 30)) * (random.random((40, 30)) < 0.2))
    stream = io.BytesIO()
    dump_svmlight_file(matrix, np.arange(40), stream, zero_based=True)
    path = write("docs.txt", stream.getvalue())
    theirs, _ = load_svmlight_file(str(path), zero_based=True)
    ours, labels = read_rows(path)
    assert abs(read(path, "svmlight").inputs - theirs).max() == 0  # the id 0 is one as others are
    assert abs(ours - theirs).max() == 0
    assert labels == [str(i) for i in range(40)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2:3 4", "line 3: expected a feature `id:value`, got '4'"),
        ("1 2:3:4", "line 3: expected a feature `id:value`, got '2:3:4'"),
        ("1 a:3", "line 3: expected a feature `id:value`, got 'a:3'"),
        ("1 2:x", "line 3: expected a feature `id:value`, got '2:x'"),
        ("1 2: 3:1", "line 3: expected a feature `id:value`, got '2:'"),
        ("1 1.5:1", "line 3: expected a feature"),
        ("1 qid:x 2:1", "line 3: expected a feature `id:value`, got 'qid:x'"),
        ("1 2:1 qid:4", "line 3: expected a feature `id:value`, got 'qid:4'"),
        ("1 -2:1", "line 3: expected a feature id from 0 to 2147483646, got '-2:1'"),
        ("1 2147483647:1", "line 3: expected a feature id from 0 to 2147483646"),
        ("1 2:nan", "line 3: expected a feature `id:value`, got '2:nan'"),
        ("1 2:1e999", "line 3: expected a finite value, got '2:1e999'"),
        ("1 2:1 3:1 2:1", "line 3: feature 2 comes twice"),
        ("2:1 3:1", "line 3: expected a label before the features, got '2:1'"),
        ("1,2 3:1", "line 3: expected one label, got '1,2'"),
    ],
)
def test_bad_svmlight_lines_are_named(write, line, message):
    with pytest.raises(DataError, match=f"docs.txt, {message}"):
        read_rows(write("docs.txt", f"1 2:3\n\n{line}\n"))


def test_bad_svmlight_files_are_named(write, tmp_path):
    with pytest.raises(DataError, match=r"docs\.txt: no documents; expected lines"):
        read_rows(write("docs.txt", "# nothing\n\n"))
    with pytest.raises(DataUnavailableError, match="no such file"):
        read_rows(tmp_path / "nothing")
    whole = write("docs.txt.gz", "1 2:3\n" * 1000)
    whole.write_bytes(whole.read_bytes()[:30])
    with pytest.raises(DataError, match=r"docs\.txt\.gz: the gzip file is cut short"):
        read_rows(whole)


@pytest.mark.parametrize(
    ("train", "test", "n_items", "n_features", "n_entries"),
    [
        ("Task2_Train_RDFData_Test_CrawlData__train", "Task2_Train_RDFData_Test_CrawlData__test",
         [4463, 1858], 10_795, [61_958, 268_177]),
        ("Task1_Train_CrawlData_Test_CrawlData__validation", "Task1_Train_CrawlData_Test_CrawlData__test",
         [1860, 1858], 22_297, [275_484, 268_177]),
    ],
)  # fmt: skip
def test_real_lshtc(train, test, n_items, n_features, n_entries):
    """The published counts have the internal feature 0 in them, which every document has once."""
    parts = [Documents(*read_rows(real(f"{name}.txt.gz"), ignore_features={0})) for name in (train, test)]
    assert [part.n_items for part in parts] == n_items
    assert [part.inputs.nnz + part.n_items for part in parts] == n_entries
    assert parts[0].inputs.indices.dtype == np.int32
    whole = parts[0].joined(parts[1])
    numbers, train_rows = Numbers.fit(whole.inputs[: whole.n_train], whole.feature_names, "none")
    assert numbers.transform(whole.inputs).shape == (sum(n_items), n_features - 1)
    assert np.diff(train_rows.tocsc().indptr).min() == 1
    assert list(map(int, numbers.names)) == sorted(map(int, numbers.names))
    assert (whole.n_train, len(whole.distinct_labels())) == (n_items[0], 1139)
    with_zero = [Documents(*read_rows(real(f"{name}.txt.gz"))) for name in (train, test)]
    also = with_zero[0].joined(with_zero[1])
    assert Numbers.fit(also.inputs[: also.n_train], also.feature_names, "none")[0].names == [
        "0",
        *numbers.names,
    ]


# ARFF

HEADER = """% a comment
@RELATION tiny

@ATTRIBUTE 'edge 1' NUMERIC
@attribute e2 real
@ATTRIBUTE class hierarchical {paths}
@DATA
"""
PATHS = "1, 2,1/a,2/b,1/c,3/d/e,3,3/d"


@pytest.mark.parametrize("name", ["tiny.arff", "tiny.arff.gz"])
def test_arff(write, name):
    text = HEADER.format(paths=PATHS) + "\n1,0,1@1/a@1/a\n% no\n-2.5,3e1, 3/d/e\r\n0,0,2@2/b\n"
    documents = read_hierarchical_arff(write(name, text))
    assert documents.inputs.toarray().tolist() == [[1, 0], [-2.5, 30], [0, 0]]
    assert (documents.inputs.dtype, documents.inputs.nnz) == (np.float64, 3)
    assert documents.labels == ["1/a", "3/d/e", "2/b"]
    assert documents.feature_names == ["edge 1", "e2"]
    assert edges(documents.taxonomy) == {
        (None, "1"), (None, "2"), (None, "3"), ("1", "1/a"), ("1", "1/c"), ("2", "2/b"), ("3", "3/d"), ("3/d", "3/d/e"),
    }  # fmt: skip
    assert documents.n_train is None


def test_arff_without_declared_nodes_has_those_of_its_labels(write):
    path = write("tiny.arff", HEADER.format(paths="") + "1,0,2/b\n1,0,1@1/a\n")
    assert edges(read_hierarchical_arff(path).taxonomy) == {
        (None, "1"),
        (None, "2"),
        ("1", "1/a"),
        ("2", "2/b"),
    }


def test_arff_takes_the_class_from_its_column(write):
    text = "@relation r\n@attribute c hierarchical x/y,z\n@attribute f integer\n@data\nx@x/y,3\nz,4\n"
    documents = read_hierarchical_arff(write("tiny.arff", text))
    assert (documents.labels, documents.inputs.toarray().tolist()) == (["x/y", "z"], [[3], [4]])
    assert documents.feature_names == ["f"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,0", "line 8: expected 3 comma-separated fields, got 2"),
        ("1,0,1/a,5", "line 8: expected 3 comma-separated fields, got 4"),
        ("1,?,1/a", r"line 8: expected a finite number, got '\?'"),
        ("1,nan,1/a", "line 8: expected a finite number, got 'nan'"),
        ("1,0,9/a", "line 8: the class '9/a' is not one that the header declares"),
        ("1,0,1/a@2/b", "line 8: expected the nodes of one path, got '1/a@2/b'"),
        ("1,0,3/d@3/d/e@3", "line 8: expected the nodes of one path"),
        ("1,0,1//a", "line 8: expected a class such as '6/2/0', got '1//a'"),
        ("1,0,", "line 8: expected a class such as '6/2/0', got ''"),
        ("", "no rows after @data"),
    ],
)
def test_bad_arff_rows_are_named(write, row, message):
    with pytest.raises(DataError, match=rf"tiny\.arff(, |: ){message}"):
        read_hierarchical_arff(write("tiny.arff", HEADER.format(paths=PATHS) + row + "\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "@relation r\n@attribute a {x,y}\n",
            "line 2: expected `@attribute NAME numeric` or .*got '@attribute a",
        ),
        ("@relation r\n@attribute a string\n", "line 2: expected `@attribute NAME numeric`"),
        ("@relation r\n@attribute a numeric 5\n", "line 2: expected `@attribute NAME numeric`"),
        (
            "@attribute c hierarchical a\n@attribute d hierarchical a\n",
            "line 2: a second hierarchical attribute",
        ),
        ("@attribute c hierarchical a,a//b\n", "line 1: expected a class such as '6/2/0', got 'a//b'"),
        ("@attribute a numeric\n@data\n1\n", "line 2: @data, but no hierarchical attribute came before it"),
        ("1,2,3\n", "line 1: expected @relation, @attribute or @data, got '1,2,3'"),
        ("@relation r\n", "no @data; expected an ARFF file"),
        ("", "no @data; expected an ARFF file"),
    ],
)
def test_bad_arff_headers_are_named(write, text, message):
    with pytest.raises(DataError, match=rf"tiny\.arff(, |: ){message}"):
        read_hierarchical_arff(write("tiny.arff", text))


def test_real_imageclef():
    train, test = (read_hierarchical_arff(real(f"image_clef_{part}.arff.gz")) for part in ("train", "test"))
    whole = train.joined(test)
    assert (train.n_items, test.n_items, whole.n_train) == (10_000, 1006, 10_000)
    assert whole.inputs.shape == (11_006, 80)
    assert set(np.unique(whole.inputs.data)) == set(range(1, 8))
    assert train.distinct_labels() == test.distinct_labels()
    tree = whole.taxonomy
    assert (tree.n_nodes, len(tree.leaves), int((tree.parents < 0).sum())) == (96, 63, 8)
    assert {tree.names[k] for k in tree.leaves} == set(whole.labels)
    assert set(tree.depths[tree.leaves]) == {2}


# 20 Newsgroups

POSTS = {
    "20news-bydate-train/b.x/10": b"From: one\n\ncaf\xe9\r\n",
    "20news-bydate-train/b.x/9": b"nine",
    "20news-bydate-train/a.y.z/7": b"seven",
    "20news-bydate-test/b.x/8": b"",
    "20news-bydate-test/a.y.w/11": b"eleven",
}


def archive(path: Path, posts: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, content in posts.items():
            folder = tarfile.TarInfo(str(Path(name).parent))
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_newsgroups(tmp_path, mode, prefix):
    posts = {prefix + name: POSTS[name] for name in reversed(POSTS)}
    posts[f"{prefix}20news-bydate-train/.DS_Store"] = b"\0"
    documents = read_newsgroups(archive(tmp_path / "news.tar", posts, mode))
    assert documents.labels == ["a.y.z", "b.x", "b.x", "a.y.w", "b.x"]
    assert documents.inputs == ["seven", "From: one\n\ncaf\u00e9\r\n", "nine", "eleven", ""]
    assert documents.n_train == 3
    assert edges(documents.taxonomy) == {(None, "a.y"), ("a.y", "a.y.z"), ("a.y", "a.y.w"), (None, "b.x")}


def test_groups_tree():
    groups = [
        "comp.sys.mac.hardware",
        "comp.sys.ibm.pc.hardware",
        "comp.graphics",
        "alt.atheism",
        "comp.os.x.misc",
    ]
    assert edges(groups_tree(groups + groups)) == {
        (None, "alt.atheism"), (None, "comp"), ("comp", "comp.graphics"), ("comp", "comp.os.x.misc"),
        ("comp", "comp.sys"), ("comp.sys", "comp.sys.mac.hardware"), ("comp.sys", "comp.sys.ibm.pc.hardware"),
    }  # fmt: skip
    assert edges(groups_tree(["a", "a.b"])) == {
        (None, "a"),
        ("a", "a.b"),
    }  # a group that is a beginning stays


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("20news-bydate-train/a.b/x7", "a group and a number, got the file '20news-bydate-train/a.b/x7'"),
        ("20news-18828/a.b/7", "expected 20news-bydate-train or 20news-bydate-test, .*'20news-18828/a.b/7'"),
        ("20news-bydate-train/7", "got the file '20news-bydate-train/7'"),
        ("20news-bydate-train/a.b/c/7", "got the file '20news-bydate-train/a.b/c/7'"),
    ],
)
def test_posts_in_the_wrong_place_are_named(tmp_path, name, message):
    with pytest.raises(DataError, match=rf"news\.tar: .*{message}"):
        read_newsgroups(archive(tmp_path / "news.tar", {**POSTS, name: b"x"}))


def test_bad_archives_are_named(tmp_path):
    path = tmp_path / "news.tar"
    with pytest.raises(DataUnavailableError, match=r"news\.tar: no such file"):
        read_newsgroups(path)
    path.write_bytes(b"no archive at all" * 100)
    with pytest.raises(DataError, match=r"news\.tar: not an archive that can be read to its end"):
        read_newsgroups(path)
    for part, missing in (("train", "test"), ("test", "train")):
        archive(path, {name: content for name, content in POSTS.items() if f"-{part}/" in name})
        with pytest.raises(DataError, match=f"no posts in 20news-bydate-{missing}/GROUP/"):
            read_newsgroups(path)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_archives_that_are_cut_short(tmp_path, mode):
    noise = np.random.default_rng(0).bytes(100_000)
    path = archive(tmp_path / "news.tar", {**POSTS, "20news-bydate-test/b.x/99": noise}, mode)
    path.write_bytes(path.read_bytes()[:60_000])
    with pytest.raises(DataError, match=r"news\.tar: not an archive that can be read to its end"):
        read_newsgroups(path)


# idx and MNIST


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("name", ["images", "images.gz"])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 4), (0, 3, 4)])
def test_idx(write, name, shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    got = read_idx(write(name, idx(array)))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file; it begins with b''"),
        (b"PK\3\4....", "not an idx file; it begins with b'PK"),
        (bytes([0, 0, 8, 0]), "not an idx file"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), r"expected unsigned bytes \(type 8\), got type 13"),
        (bytes([0, 0, 8, 3, 0, 0, 0, 1]), r"cut short within its header \(8 of 16 bytes\)"),
        (idx(np.ones((2, 3)))[:-1], "expected 6 bytes for 2 x 3 values, got 5"),
        (idx(np.ones((2, 3))) + b"\0", "expected 6 bytes for 2 x 3 values, got 7"),
    ],
)
def test_bad_idx_files_are_named(write, content, message):
    with pytest.raises(DataError, match=f"images: {message}"):
        read_idx(write("images", content))


def test_images_with_their_labels(write):
    images = np.zeros((3, 2, 2))
    images[0, 0, 1], images[2, 1, 0] = 255, 51
    documents = read_labelled_images(
        write("images.gz", idx(images)), write("labels", idx(np.array([7, 0, 7])))
    )
    assert documents.inputs.toarray().tolist() == [[0, 1, 0, 0], [0] * 4, [0, 0, 0.2, 0]]
    assert (documents.inputs.dtype, documents.inputs.nnz) == (np.float64, 2)
    assert documents.labels == ["7", "0", "7"]
    assert documents.feature_names == ["p0_0", "p0_1", "p1_0", "p1_1"]
    assert documents.taxonomy is None


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.ones((2, 3)), np.ones(2), "images: expected images x rows x columns, got 2 dimensions"),
        (np.ones((2, 3, 3)), np.ones((2, 1)), "labels: expected one dimension of labels, got 2"),
        (np.ones((2, 3, 3)), np.ones(3), "images: 2 images, but 3 labels in .*labels"),
    ],
)
def test_images_and_labels_that_do_not_fit(write, images, labels, message):
    with pytest.raises(DataError, match=message):
        read_labelled_images(write("images", idx(images)), write("labels", idx(labels)))


# CIFAR-10, made up here


def write_records(path, n, seed=0, label=None):
    records = np.random.default_rng(seed).integers(0, 256, (n, CIFAR_PIXELS + 1), dtype=np.uint8)
    records[:, 0] = np.arange(n) % 10 if label is None else label
    path.write_bytes(records.tobytes())
    return records


def test_parts_of_cifar(tmp_path):
    paths = [tmp_path / name for name in ("a.bin", "b.bin", "test.bin")]
    records = [write_records(path, n, n) for path, n in zip(paths, (4, 3, 2), strict=True)]
    found = read_files("cifar", paths)
    assert found.n_train == 7
    assert found.labels == ["0", "1", "2", "3", "0", "1", "2", "0", "1"]
    np.testing.assert_allclose(found.inputs.toarray(), np.concatenate(records)[:, 1:] / 255, atol=1e-7)


def test_damaged_cifar_files(tmp_path):
    (tmp_path / "short.bin").write_bytes(b"\0" * 100)
    with pytest.raises(DataError, match=r"short.bin: expected records of 3073 bytes, got 100"):
        read_cifar(tmp_path / "short.bin")
    write_records(tmp_path / "odd.bin", 2, label=11)
    with pytest.raises(DataError, match=r"odd.bin: expected labels 0 to 9, got 11"):
        read_cifar(tmp_path / "odd.bin")
