"""PyInstaller's hook for crfqn: a frozen program has what labelling with numpy alone needs, which `crfqn` imports by
name when it is used. What training needs is left out, also where labelling imports it for results that few ask for."""

from PyInstaller.utils.hooks import collect_submodules

COMPILED = "crfqn.model.compiled_engine"
hiddenimports = ["crfqn.data.tokenizers", *collect_submodules("crfqn.model", lambda name: name != COMPILED)]
excludedimports = [
    "crfqn.kernels",
    "crfqn.structures.chain",
    "crfqn.structures.taxonomy",
    "crfqn.threads",
    "joblib",
    "llvmlite",
    "networkx",
    "numba",
    "pandas",
    "scipy",
    "sklearn",
    "threadpoolctl",
]
