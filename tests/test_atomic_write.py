"""Files written as a whole: what killed writers leave is removed, what others are writing stays."""

import os
import subprocess
import sys

import pytest

from crfqn import atomic_write
from crfqn.atomic_write import check_writable, replace_data_file, replace_file
from crfqn.errors import DataError, ModelFileError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks and folders of POSIX")
KILLED = """
import os, signal, sys
from crfqn.atomic_write import replace_file
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
replace_file(sys.argv[1], b"new")
"""


def test_what_a_killed_writer_leaves_goes_with_the_next_save(tmp_path):
    path = tmp_path / "m[1].crfqn"
    path.write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode < 0
    assert path.read_bytes() == b"old"
    (left,) = {each.name for each in tmp_path.iterdir()} - {path.name}
    of_others = {
        ".m1.crfqn.0123456789ab.part",
        ".m[1].crfqn.mine.part",
        f"{left}.0123456789ab.part",
        "x.part",
    }
    for name in of_others:
        (tmp_path / name).touch()
    replace_file(tmp_path / "m", b"another")
    assert (tmp_path / left).exists()
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert {each.name for each in tmp_path.iterdir()} == {path.name, "m", *of_others}


def test_what_another_is_writing_stays(tmp_path, monkeypatch):
    path, fsync = tmp_path / "m", os.fsync

    def save_meanwhile(descriptor):
        monkeypatch.setattr(os, "fsync", fsync)
        replace_file(path, b"second")
        assert path.read_bytes() == b"second"
        assert len(list(tmp_path.iterdir())) == 2

    monkeypatch.setattr(os, "fsync", save_meanwhile)
    replace_file(path, b"first")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_taken_for_a_dead_one_before_it_is_locked(tmp_path, monkeypatch):
    path, flock = tmp_path / "m", atomic_write.fcntl.flock

    def too_late(stream, how):
        os.unlink(stream.name)
        monkeypatch.setattr(atomic_write.fcntl, "flock", flock)

    monkeypatch.setattr(atomic_write.fcntl, "flock", too_late)
    replace_file(path, b"content")
    assert path.read_bytes() == b"content"


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(stream, how):
        raise OSError("no locks available")

    monkeypatch.setattr(atomic_write.fcntl, "flock", refuse)
    (tmp_path / ".m.0123456789ab.part").touch()
    replace_file(tmp_path / "m", b"content")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".m.0123456789ab.part", "m"]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (check_writable, ModelFileError),
        (lambda path: replace_file(path, b""), ModelFileError),
        (lambda path: replace_data_file(path, b""), DataError),
    ],
)
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_folder_that_was_deleted(tmp_path, monkeypatch, action, error, is_relative):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(error, match=r"^cannot write .*m: the (current )?folder .*does not exist"):
        action("m" if is_relative else folder / "m")
