"""The model file: what is written comes back, and no file, however damaged, does anything but say so."""

import json
import os
import stat
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors import safe_open
from safetensors.numpy import load, save

from crfqn.atomic_write import check_writable
from crfqn.data import model_file
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import InputError, ModelFileError

ARRAYS = {
    "coords": np.array([3, 17, 2**40], dtype=np.int64),
    "values": np.array([0.1, -2.5, 1e-300]),
    "small": np.array([[1, 2], [3, 4]], dtype=np.int32),
    "flags": np.array([True, False, True]),
    "empty": np.zeros((0, 4)),
    "scalar": np.array(7.0, dtype=np.float32),
}
STRINGS = {"classes": ["a", "é", "", "日本"], "none": [], "features": [f"p{i}&p{i + 1}" for i in range(6)]}
METADATA = {
    "settings": {"l1": 1.5, "solver": "prox-qn"},
    "gap": 1e-4,
    "name": "naïve",
    "list": [1, None, True],
}


@pytest.fixture
def model_path(tmp_path):
    path = tmp_path / "model.crfqn"
    write_model(path, "chain-crf", ARRAYS, STRINGS, METADATA)
    return path


def assert_same_model(model):
    assert model.kind == "chain-crf"
    assert model.strings == STRINGS
    assert model.metadata == METADATA
    assert model.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert model.arrays[name].dtype == array.dtype
        assert_array_equal(model.arrays[name], array)


def rewrite_header(path, change):
    """Apply `change` to the JSON header, as someone with an editor would."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    document = json.loads(header["__metadata__"]["crfqn"])
    change(document, header)
    header["__metadata__"]["crfqn"] = json.dumps(document)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def write_signed(path, tensors, **fields):
    """Write a file whose checksum is right but whose content a crafted writer chose."""
    document = {
        "format_version": 1,
        "kind": "chain-crf",
        "metadata": {},
        "strings": [],
        "arrays": {name: [array.dtype.name, list(array.shape)] for name, array in tensors.items()},
        **fields,
    }
    document["sha256"] = model_file._fingerprint(document, tensors)
    path.write_bytes(save(tensors, {"crfqn": json.dumps(document)}))


class TestRoundTrip:
    def test_everything_comes_back(self, model_path):
        assert_same_model(read_model(model_path))

    def test_arrays_are_writable_and_aligned(self, model_path):
        for array in read_model(model_path).arrays.values():
            assert array.flags.writeable
            assert array.flags.aligned
            assert array.flags.c_contiguous

    def test_same_content_gives_same_values_in_any_layout(self, tmp_path):
        matrix = np.arange(12.0).reshape(3, 4)
        layouts = {
            "fortran": np.asfortranarray(matrix),
            "swapped": matrix.astype(">f8"),
            "strided": matrix[:, ::2],
        }
        write_model(tmp_path / "m", "k", layouts, {}, {})
        arrays = read_model(tmp_path / "m").arrays
        assert_array_equal(arrays["fortran"], matrix)
        assert_array_equal(arrays["swapped"], matrix)
        assert arrays["swapped"].dtype == np.float64
        assert_array_equal(arrays["strided"], matrix[:, ::2])

    def test_input_is_unchanged(self, tmp_path):
        array = np.arange(4.0)
        write_model(tmp_path / "m", "k", {"a": array}, {"s": ["x"]}, {"n": 1})
        assert_array_equal(array, np.arange(4.0))

    def test_numpy_values_in_metadata(self, tmp_path):
        write_model(
            tmp_path / "m", "k", {}, {}, {"a": np.float64(0.5), "b": np.arange(3), "gap": float("inf")}
        )
        assert read_model(tmp_path / "m").metadata == {"a": 0.5, "b": [0, 1, 2], "gap": float("inf")}

    def test_lone_surrogates_survive(self, tmp_path):
        write_model(tmp_path / "m", "k", {}, {"s": ["\udc80x", "y"]}, {"t": "\udc80"})
        model = read_model(tmp_path / "m")
        assert model.strings == {"s": ["\udc80x", "y"]}
        assert model.metadata == {"t": "\udc80"}

    def test_integers_may_be_wider_than_needed(self, tmp_path):
        tensors = {"t.utf8": np.frombuffer(b"abc", np.uint8), "t.ends": np.array([1, 1, 3])}
        write_signed(tmp_path / "m", tensors, strings=["t"])
        assert read_model(tmp_path / "m").strings == {"t": ["a", "", "bc"]}

    @pytest.mark.parametrize(
        ("size", "dtype"), [(255, "uint8"), (256, "uint16"), (65535, "uint16"), (65536, "uint32")]
    )
    def test_ends_of_strings_take_as_few_bytes_as_hold_them(self, tmp_path, size, dtype):
        write_model(tmp_path / "m", "k", {}, {"s": ["x", "y" * (size - 1)]}, {})
        with safe_open(tmp_path / "m", "np") as file:
            assert file.get_tensor("s.ends").dtype == dtype
        assert read_model(tmp_path / "m").strings["s"] == ["x", "y" * (size - 1)]

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.text(max_size=8), max_size=20))
    def test_any_strings(self, tmp_path_factory, values):
        path = tmp_path_factory.mktemp("strings") / "m"
        write_model(path, "k", {}, {"s": values}, {})
        assert read_model(path).strings["s"] == values

    def test_file_bytes_are_reproducible(self, tmp_path):
        for name in ("a", "b"):
            write_model(tmp_path / name, "chain-crf", ARRAYS, STRINGS, METADATA)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_other_tools_read_it(self, model_path):
        assert_array_equal(load(model_path.read_bytes())["values"], ARRAYS["values"])

    def test_string_path_and_relative_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        check_writable("m.crfqn")
        write_model("m.crfqn", "k", {}, {}, {})
        assert read_model("m.crfqn").kind == "k"


class TestAccess:
    def test_array_and_strings(self, model_path):
        model = read_model(model_path)
        assert model.array("small", "int32", (2, None)).sum() == 10
        assert model.string_list("none") == []

    @pytest.mark.parametrize(
        ("name", "dtype", "shape", "words"),
        [
            ("nothing", "int64", (3,), "no array 'nothing'"),
            ("coords", "float64", (3,), "should be float64"),
            ("coords", "int64", (4,), "of shape"),
            ("coords", "int64", (3, 1), "of shape"),
        ],
    )
    def test_misfits(self, model_path, name, dtype, shape, words):
        with pytest.raises(ModelFileError, match=words):
            read_model(model_path).array(name, dtype, shape)

    def test_missing_strings(self, model_path):
        with pytest.raises(ModelFileError, match="no list of strings 'tags'"):
            read_model(model_path).string_list("tags")


class TestDamage:
    def test_truncated_at_every_length(self, model_path):
        data = model_path.read_bytes()
        for length in range(len(data)):
            model_path.write_bytes(data[:length])
            with pytest.raises(ModelFileError, match=r"model\.crfqn: ."):
                read_model(model_path)

    def test_truncation_is_called_so(self, model_path):
        model_path.write_bytes(model_path.read_bytes()[:-1])
        with pytest.raises(ModelFileError, match="truncated: it has"):
            read_model(model_path)

    def test_appended_bytes(self, model_path):
        model_path.write_bytes(model_path.read_bytes() + b"x")
        with pytest.raises(ModelFileError, match="damaged: it has"):
            read_model(model_path)

    @pytest.mark.parametrize("mask", [0x01, 0x29, 0xFF])
    def test_every_byte_flipped(self, model_path, mask):
        data = model_path.read_bytes()
        for index in range(len(data)):
            damaged = bytearray(data)
            damaged[index] ^= mask
            model_path.write_bytes(damaged)
            try:
                model = read_model(model_path)
            except ModelFileError:
                continue
            assert_same_model(model)  # a flip that means the same, such as another blank in the JSON header

    def test_every_flip_in_the_arrays_is_found(self, model_path):
        data = model_path.read_bytes()
        for index in range(8 + int.from_bytes(data[:8], "little"), len(data)):
            damaged = bytearray(data)
            damaged[index] ^= 1
            model_path.write_bytes(damaged)
            with pytest.raises(ModelFileError, match=r"checksum|damaged"):
                read_model(model_path)

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=200))
    def test_random_bytes(self, tmp_path_factory, data):
        path = tmp_path_factory.mktemp("random") / "m"
        path.write_bytes(data)
        with pytest.raises(ModelFileError):
            read_model(path)

    @pytest.mark.parametrize(
        "data",
        [
            b"lCRFfoo" * 100,
            b"PK\x03\x04" + bytes(200),
            b"\x80\x04\x95" + b"pickle" * 20,
            b"\x93NUMPY\x01\x00" + bytes(120),
            b"solver_type L1R_LR\nnr_class 3\n",
            b"\xff" * 64,
            bytes(64),
            struct.pack("<Q", 2**63) + bytes(100),
            struct.pack("<Q", 99_000_000) + bytes(100),
            struct.pack("<Q", 2) + b"{}",
            struct.pack("<Q", 2) + b"[]",
            struct.pack("<Q", 200_000) + b"[" * 200_000,
            struct.pack("<Q", 6) + b"[" + b"1" * 4 + b"]",
            struct.pack("<Q", 5_001) + b"1" * 5_001,
            struct.pack("<Q", 19) + b'{"__metadata__": 3 }',
        ],
        ids=lambda data: repr(data[:12]),
    )
    def test_foreign_files(self, tmp_path, data):
        path = tmp_path / "foreign"
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=r"foreign: .*(not a|truncated)"):
            read_model(path)

    def test_foreign_safetensors(self, tmp_path):
        path = tmp_path / "bert"
        path.write_bytes(save({"weight": np.zeros(3)}, {"format": "pt"}))
        with pytest.raises(ModelFileError, match="not a crfqn model"):
            read_model(path)

    def test_empty_file(self, tmp_path):
        (tmp_path / "m").touch()
        with pytest.raises(ModelFileError, match="empty"):
            read_model(tmp_path / "m")

    def test_folder_missing_file_and_pipe(self, tmp_path):
        with pytest.raises(ModelFileError, match="not a file"):
            read_model(tmp_path)
        with pytest.raises(ModelFileError, match="no such file"):
            read_model(tmp_path / "nothing")
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "pipe")
            with pytest.raises(ModelFileError, match="not a file"):
                read_model(tmp_path / "pipe")

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
    def test_unreadable(self, model_path):
        model_path.chmod(0)
        with pytest.raises(ModelFileError, match="Permission denied"):
            read_model(model_path)

    def test_newer_version(self, model_path):
        rewrite_header(model_path, lambda document, header: document.update(format_version=7))
        with pytest.raises(ModelFileError, match=r"format version 7, newer .* upgrade crfqn"):
            read_model(model_path)

    @pytest.mark.parametrize(
        "change",
        [
            lambda document, header: document.update(format_version=0),
            lambda document, header: document.update(format_version="1"),
            lambda document, header: document.update(format_version=True),
            lambda document, header: document.update(kind="other"),
            lambda document, header: document.update(kind=3),
            lambda document, header: document.update(sha256="0" * 64),
            lambda document, header: document.pop("sha256"),
            lambda document, header: document.pop("metadata"),
            lambda document, header: document["metadata"].update(gap=0.0),
            lambda document, header: document["arrays"].pop("coords"),
            lambda document, header: document["arrays"].update(extra=["float64", [1]]),
            lambda document, header: document["arrays"].update(coords=["float64", [3]]),
            lambda document, header: document["arrays"].update(coords=["int64", [1, 3]]),
            lambda document, header: document["arrays"].update(coords="everything"),
            lambda document, header: document["strings"].append("ghost"),
            lambda document, header: document["strings"].append("classes"),
            lambda document, header: document["strings"].pop(),
            lambda document, header: document["strings"].append(3),
            lambda document, header: header["values"].update(dtype="I64"),
            lambda document, header: header["values"].update(dtype="BF16"),
            lambda document, header: header["values"].update(dtype="nonsense"),
            lambda document, header: header["values"].update(shape=[1, 3]),
            lambda document, header: header["values"].update(shape=[2**62, 2**62]),
            lambda document, header: header["empty"].update(shape=[0, 2**62]),
            lambda document, header: header["values"].update(data_offsets=[0, 10**18]),
            lambda document, header: header["values"].update(data_offsets=[10**30, 10**31]),
            lambda document, header: header["values"].update(data_offsets=[-8, 16]),
            lambda document, header: header["values"].update(data_offsets="all"),
            lambda document, header: header.pop("values"),
            lambda document, header: header.update(values=header["coords"]),
            lambda document, header: header.update(values=3),
        ],
    )
    def test_edited_header(self, model_path, change):
        rewrite_header(model_path, change)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: ."):
            read_model(model_path)

    @pytest.mark.parametrize(
        ("text", "ends"),
        [
            (np.frombuffer(b"abc", np.uint8), np.array([1, 4], np.int64)),
            (np.frombuffer(b"abc", np.uint8), np.array([4, 3], np.int64)),
            (np.frombuffer(b"abc", np.uint8), np.array([-1, 3], np.int64)),
            (np.frombuffer(b"abc", np.uint8), np.zeros(0, np.int64)),
            (np.frombuffer(b"abc", np.uint8), np.array([3.0])),
            (np.frombuffer(b"abc", np.uint8), np.array([[3]], np.int64)),
            (np.frombuffer(b"\xff\xfe", np.uint8), np.array([2], np.int64)),
            (np.zeros(3), np.array([3], np.int64)),
        ],
    )
    def test_impossible_strings_with_a_right_checksum(self, tmp_path, text, ends):
        write_signed(tmp_path / "m", {"s.utf8": text, "s.ends": ends}, strings=["s"])
        with pytest.raises(ModelFileError, match="list of strings 's'"):
            read_model(tmp_path / "m")

    @pytest.mark.parametrize("strings", [["s"], ["t", "t"], [None], [["t"]]])
    def test_impossible_string_names_with_a_right_checksum(self, tmp_path, strings):
        tensors = {"t.utf8": np.zeros(0, np.uint8), "t.ends": np.zeros(0, np.int64)}
        write_signed(tmp_path / "m", tensors, strings=strings)
        with pytest.raises(ModelFileError, match="list of strings"):
            read_model(tmp_path / "m")


class TestWriting:
    def only_file(self, folder):
        return sorted(path.name for path in folder.iterdir())

    @pytest.mark.parametrize(
        ("arrays", "strings", "metadata", "words"),
        [
            ({"a": np.array([None])}, {}, {}, "dtype object"),
            ({"a": np.array(["x"])}, {}, {}, "dtype <U1"),
            ({"a": np.zeros(2, complex)}, {}, {}, "complex128"),
            ({}, {}, {"a": {1, 2}}, "not JSON"),
            ({"s.utf8": np.zeros(2)}, {"s": ["x"]}, {}, "taken"),
        ],
    )
    def test_unusable_content(self, tmp_path, arrays, strings, metadata, words):
        with pytest.raises(InputError, match=words):
            write_model(tmp_path / "m", "k", arrays, strings, metadata)
        assert self.only_file(tmp_path) == []

    @pytest.mark.parametrize("action", [check_writable, lambda path: write_model(path, "k", {}, {}, {})])
    def test_impossible_targets(self, tmp_path, action):
        with pytest.raises(ModelFileError, match=r"nowhere does not exist"):
            action(tmp_path / "nowhere" / "m")
        with pytest.raises(ModelFileError, match="it is a folder"):
            action(tmp_path)
        with pytest.raises(ModelFileError, match="not a regular file"):
            action(os.devnull)
        (tmp_path / "file").touch()
        with pytest.raises(ModelFileError, match="cannot write "):
            action(tmp_path / "file" / "m")
        assert self.only_file(tmp_path) == ["file"]

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
    @pytest.mark.parametrize("action", [check_writable, lambda path: write_model(path, "k", {}, {}, {})])
    def test_read_only_folder(self, tmp_path, action):
        tmp_path.chmod(0o500)
        try:
            with pytest.raises(ModelFileError, match="Permission denied"):
                action(tmp_path / "m")
        finally:
            tmp_path.chmod(0o700)

    @pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that takes no files")
    @pytest.mark.parametrize("action", [check_writable, lambda path: write_model(path, "k", {}, {}, {})])
    def test_a_folder_that_takes_no_files(self, action):
        with pytest.raises(ModelFileError, match=r"^cannot write /proc/m: the folder /proc takes no"):
            action("/proc/m")

    def test_check_leaves_nothing_and_keeps_the_old_file(self, model_path):
        before = model_path.read_bytes()
        check_writable(model_path)
        check_writable(model_path.parent / "new")
        assert self.only_file(model_path.parent) == ["model.crfqn"]
        assert model_path.read_bytes() == before

    @pytest.mark.parametrize("name", ["fsync", "replace"])
    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    def test_failure_while_writing(self, model_path, monkeypatch, name, error):
        def fail(*args):
            raise error

        monkeypatch.setattr(os, name, fail)
        expected = ModelFileError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            write_model(model_path, "k", {}, {}, {})
        monkeypatch.undo()
        assert self.only_file(model_path.parent) == ["model.crfqn"]
        assert_same_model(read_model(model_path))

    @pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
    def test_usual_permissions(self, model_path):
        plain = model_path.parent / "plain"
        plain.touch()
        assert stat.S_IMODE(model_path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)

    @pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
    def test_link_is_followed(self, model_path):
        link = model_path.parent / "link"
        link.symlink_to(model_path)
        write_model(link, "other", {}, {}, {})
        assert link.is_symlink()
        assert read_model(model_path).kind == "other"

    def test_long_name(self, tmp_path):
        path = tmp_path / ("m" * 250)
        write_model(path, "k", {}, {}, {})
        assert read_model(path).kind == "k"

    def test_a_reader_never_sees_half_a_file(self, model_path):
        stop = threading.Event()

        def write_again():
            while not stop.is_set():
                write_model(model_path, "chain-crf", ARRAYS, STRINGS, METADATA)

        writer = threading.Thread(target=write_again)
        writer.start()
        try:
            for _ in range(30):
                assert_same_model(read_model(model_path))
        finally:
            stop.set()
            writer.join()
