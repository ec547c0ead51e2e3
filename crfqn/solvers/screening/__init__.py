"""Problems in some of their weights only: the strong rule, and zeros that are proved."""
