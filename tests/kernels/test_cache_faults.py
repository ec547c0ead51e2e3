"""Compiled code on disk that is damaged, or that cannot be written: compiled again, with one warning."""

import builtins
import errno

import numba
import pytest

from crfqn.kernels import kernel, numba_internals

UNREADABLE = "compiled code on disk cannot be read, so it is compiled again"
NOT_KEPT = "compiled code cannot be written to disk, so every process compiles it again"


def twice(x):
    return 2 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of compiled code, and a process that has warned of nothing yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba_internals, "_warned", set())
    return tmp_path


def hits_and_misses():
    """How often a new process would find compiled code, and how often not."""
    found = kernel(twice)
    assert found(21) == 42
    return sum(found.stats.cache_hits.values()), sum(found.stats.cache_misses.values())


def flipped(content):
    """With another bit in the middle: in machine code, which would run."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "emptied": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "zeros at the end": lambda content: content[: len(content) // 2].ljust(len(content), b"\0"),
    "garbage": lambda content: b"\x80\x05garbage",
    "another pickle": lambda content: b"I5\n.",
}


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [*((suffix, damage) for suffix in ("nbi", "nbc") for damage in DAMAGES.values()), ("nbc", flipped)],
    ids=[*(f"{suffix} {name}" for suffix in ("nbi", "nbc") for name in DAMAGES), "nbc flipped"],
)
def test_damaged_files_are_replaced(folder, suffix, damage):
    assert hits_and_misses() == (0, 1)
    (path,) = folder.rglob(f"*.{suffix}")
    path.write_bytes(damage(path.read_bytes()))
    if suffix == "nbi" and damage is DAMAGES["another pickle"]:  # as an index of another version of numba
        assert hits_and_misses() == (0, 1)
    else:
        with pytest.warns(RuntimeWarning, match=UNREADABLE) as said:
            assert hits_and_misses() == (0, 1)
        assert len(said) == 1
    assert hits_and_misses() == (1, 0)


def test_code_of_other_sources_in_the_place_that_the_index_names(folder, monkeypatch):
    """As after a disk was full: the index has been written, the code has not."""
    hits_and_misses()
    (path,) = folder.rglob("*.nbc")
    old = path.read_bytes()
    monkeypatch.setattr(numba_internals, "hash_of_kernels", lambda: "of other sources")
    assert hits_and_misses() == (0, 1)
    path.write_bytes(old)
    assert hits_and_misses() == (0, 1)
    assert hits_and_misses() == (1, 0)


def test_a_full_disk_is_said_once(folder, monkeypatch):
    def full(path, *others, real=open, **named):
        if ".tmp." in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, *others, **named)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", full)
        with pytest.warns(RuntimeWarning, match=f"{NOT_KEPT}.*No space"):
            hits_and_misses()
        hits_and_misses()  # where another warning would be an error
    assert hits_and_misses() == (0, 1)
    assert hits_and_misses() == (1, 0)


def test_no_folder_at_all_is_said_once(folder, monkeypatch):
    monkeypatch.setattr(numba.core.caching._CacheLocator, "ensure_cache_path", refuse)
    with pytest.warns(RuntimeWarning, match=f"{NOT_KEPT}.*NUMBA_CACHE_DIR.*no locator available"):
        kernel(twice)
    assert kernel(twice)(21) == 42  # where another warning would be an error


def test_a_folder_that_takes_no_files_any_more_is_said_once(folder, monkeypatch):
    first = kernel(twice)
    monkeypatch.setattr(numba.core.caching._CacheLocator, "ensure_cache_path", refuse)
    with pytest.warns(RuntimeWarning, match=f"{NOT_KEPT}.*Read-only") as said:
        assert (first(21), first(0.5)) == (42, 1.0)
    assert len(said) == 1


def refuse(locator):
    raise OSError(errno.EROFS, "Read-only file system")
