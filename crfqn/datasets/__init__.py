"""Registry of datasets: entries, the places of their files, downloads, checks and reading."""

from crfqn.datasets.content import Content
from crfqn.datasets.entry import Dataset, Verification
from crfqn.datasets.files import DataFile, cache_folder
from crfqn.datasets.registry import dataset, list_datasets

__all__ = ["Content", "DataFile", "Dataset", "Verification", "cache_folder", "dataset", "list_datasets"]
