"""`python -m crfqn` is the `crfqn` script."""

from crfqn.cli import main

if __name__ == "__main__":
    main()
