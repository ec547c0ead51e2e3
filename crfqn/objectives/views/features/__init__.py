"""A loss that follows blocks of weights as they change one after the other: for block coordinate descent."""
