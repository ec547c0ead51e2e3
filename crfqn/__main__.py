"""`python -m crfqn` is the `crfqn` script; Python wants it here, below everything that it runs."""

import crfqn.cli

if __name__ == "__main__":
    crfqn.cli.run()
