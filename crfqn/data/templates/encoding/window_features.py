"""The place at which the manual has always had users import `WindowFeatures` from."""

from crfqn.data.templates.vocabulary import WindowFeatures

__all__ = ["WindowFeatures"]
