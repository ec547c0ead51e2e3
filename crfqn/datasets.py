"""The public datasets: `dataset(name)` and `list_datasets()`, defined in `crfqn/readers/datasets.py`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "crfqn.readers",
    submod_attrs={
        "dataset_files": ["DataFile", "cache_folder"],
        "datasets": ["Content", "Dataset", "Verification", "dataset", "list_datasets"],
    },
)
