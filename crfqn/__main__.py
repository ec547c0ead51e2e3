"""`python -m crfqn` is the `crfqn` script."""

from crfqn.cli import run

if __name__ == "__main__":
    run()
