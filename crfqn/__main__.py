"""`python -m crfqn` runs the `crfqn` script; Python requires this file in the package's own folder."""

import crfqn.cli

if __name__ == "__main__":
    crfqn.cli.run()
