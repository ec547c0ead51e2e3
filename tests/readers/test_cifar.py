"""CIFAR-10's binary files, made up here."""

import numpy as np
import pytest

from crfqn.datasets.reading import read_files
from crfqn.errors import DataError
from crfqn.readers.collections.images import PIXELS, read_cifar


def write(path, n, seed=0, label=None):
    records = np.random.default_rng(seed).integers(0, 256, (n, PIXELS + 1), dtype=np.uint8)
    records[:, 0] = np.arange(n) % 10 if label is None else label
    path.write_bytes(records.tobytes())
    return records


def test_parts_of_the_training_and_the_test(tmp_path):
    paths = [tmp_path / name for name in ("a.bin", "b.bin", "test.bin")]
    records = [write(path, n, n) for path, n in zip(paths, (4, 3, 2), strict=True)]
    found = read_files("cifar", paths, None)
    assert found.n_train == 7
    assert found.labels == ["0", "1", "2", "3", "0", "1", "2", "0", "1"]
    np.testing.assert_allclose(found.inputs.toarray(), np.concatenate(records)[:, 1:] / 255, atol=1e-7)


def test_damaged_files(tmp_path):
    (tmp_path / "short.bin").write_bytes(b"\0" * 100)
    with pytest.raises(DataError, match=r"short.bin: expected records of 3073 bytes, got 100"):
        read_cifar(tmp_path / "short.bin")
    write(tmp_path / "odd.bin", 2, label=11)
    with pytest.raises(DataError, match=r"odd.bin: expected labels 0 to 9, got 11"):
        read_cifar(tmp_path / "odd.bin")
