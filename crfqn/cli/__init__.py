"""Command line: `crfqn train | predict | evaluate | inspect | report | serve | convert | path | data | compile | ...`.

Results go to stdout, progress and messages to stderr; the exit code (`crfqn.cli.exits`) says how it ended.
Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""


def main() -> None:
    """Run the command line; ends by SystemExit, whose code says how it went."""
    import signal
    import threading

    from crfqn.cli.exits import (
        ExitCode,
        code_of,
        comes_of_sigterm,
        on_the_way_out,
        raise_signal,
        received,
        report,
    )
    from crfqn.cli.output import close_streams, prepare_stdout

    if threading.current_thread() is threading.main_thread():
        received.clear()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # as a shell has it for its background
                signal.signal(number, raise_signal)
    prepare_stdout()
    try:
        try:
            from crfqn.cli.app import app
        except ModuleNotFoundError as error:
            raise SystemExit(report(error)) from None

        app(prog_name="crfqn")
    except KeyboardInterrupt as interrupt:  # before or after a command; within one the command answers
        on_the_way_out()
        raise SystemExit(code_of(interrupt)) from None
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED and comes_of_sigterm(end):
            raise SystemExit(
                ExitCode.TERMINATED
            ) from None  # the parser of the command line took it for Ctrl-C
        raise
    finally:
        close_streams()


def run() -> None:
    """Run the command line as a process of its own: the `crfqn` script, and `python -m crfqn`."""
    try:
        main()
    except SystemExit as end:
        from crfqn.cli.exits import ExitCode, end_process

        if end.code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
            end_process(end.code)
        raise
