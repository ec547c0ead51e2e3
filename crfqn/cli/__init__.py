"""Command line: `crfqn train | predict | evaluate | inspect | report | path | data | quickstart`.

Results go to stdout, progress and messages to stderr; the exit code (`crfqn.cli.exits`) says how it ended.
Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""


def main() -> None:
    """Run the command line; the entry point of the `crfqn` script."""
    from crfqn.cli.app import app
    from crfqn.cli.exits import ExitCode, close_stdout, prepare_stdout

    prepare_stdout()
    try:
        app(prog_name="crfqn")
    except KeyboardInterrupt:  # before or after a command; within one the command answers
        raise SystemExit(ExitCode.INTERRUPTED) from None
    finally:
        close_stdout()
