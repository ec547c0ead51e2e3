"""The registry of datasets: what there is, where its files lie, how they are fetched, checked and read."""

from crfqn.datasets.content import Content
from crfqn.datasets.entry import Dataset, Verification
from crfqn.datasets.files import DataFile, cache_folder
from crfqn.datasets.registry import dataset, list_datasets

__all__ = ["Content", "DataFile", "Dataset", "Verification", "cache_folder", "dataset", "list_datasets"]
