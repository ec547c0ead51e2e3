"""Registry of datasets: entries, the places of their files, downloads, checks and reading."""

from crfqn.datasets.files import DataFile, cache_folder
from crfqn.datasets.registry import Content, Dataset, Verification, dataset, list_datasets

__all__ = ["Content", "DataFile", "Dataset", "Verification", "cache_folder", "dataset", "list_datasets"]
