"""A trained model that cannot be saved where the user wants it."""

import tempfile

import pytest

from crfqn.atomic_write import replace_file
from crfqn.cli.training import save_model
from crfqn.errors import ModelFileError


class Model:
    def save(self, path, **options):
        replace_file(path, b"content")


@pytest.fixture
def spare(tmp_path, monkeypatch):
    """The folder of temporary folders."""
    folder = tmp_path / "spare"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_is_saved_elsewhere(tmp_path, spare):
    gone = tmp_path / "gone" / "m"
    with pytest.raises(ModelFileError) as info:
        save_model(Model(), gone)
    (rescue,) = spare.glob("*/m")
    assert str(info.value).startswith(f"cannot write {gone}: ")
    assert str(info.value).endswith(f"; the model is in {rescue} instead")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_it_cannot_be_saved_elsewhere_either(tmp_path, spare, monkeypatch, error):
    def fail(*args):
        raise error

    monkeypatch.setattr("crfqn.atomic_write.os.fsync", fail)
    kind = ModelFileError if isinstance(error, OSError) else KeyboardInterrupt
    words = f"^cannot write {tmp_path / 'm'}: No space.*; nor can it be saved elsewhere: cannot write {spare}"
    with pytest.raises(kind, match=words if kind is ModelFileError else None):
        save_model(Model(), tmp_path / "m")
    assert list(spare.iterdir()) == []


def test_there_is_no_place_for_temporary_folders(tmp_path, spare):
    spare.rmdir()
    gone = tmp_path / "gone" / "m"
    with pytest.raises(ModelFileError, match=f"^cannot write {gone}: .*; nor can it be saved elsewhere: "):
        save_model(Model(), gone)
