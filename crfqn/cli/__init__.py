"""Command line: `crfqn train | predict | evaluate | inspect | report | serve | convert | path | data | compile | ...`.

Commands write results to stdout, progress and messages to stderr, and end with an exit code of `crfqn.cli.exits`.
Nothing heavy is imported before a command needs it, so that `--help` is fast.
"""


def main() -> None:
    """Run the command line; always raises SystemExit, with an exit code of `crfqn.cli.exits`."""
    import signal
    import threading

    from crfqn.cli.exits import (
        ExitCode,
        exit_at_next_signal,
        exit_code,
        is_caused_by_sigterm,
        raise_signal,
        received,
        report_error,
    )
    from crfqn.cli.output import close_streams, prepare_stdout

    if threading.current_thread() is threading.main_thread():
        received.clear()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # a shell ignores SIGINT for background jobs
                signal.signal(number, raise_signal)
    prepare_stdout()
    try:
        try:
            from crfqn.cli.app import app
        except ModuleNotFoundError as error:
            raise SystemExit(report_error(error)) from None

        app(prog_name="crfqn")
    except KeyboardInterrupt as interrupt:  # outside of a command; commands catch their own
        exit_at_next_signal()
        raise SystemExit(exit_code(interrupt)) from None
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED and is_caused_by_sigterm(end):
            raise SystemExit(ExitCode.TERMINATED) from None  # click reports any KeyboardInterrupt as Ctrl-C
        raise
    finally:
        close_streams()


def run() -> None:
    """Run the command line as a whole process: the `crfqn` script, and `python -m crfqn`."""
    try:
        main()
    except SystemExit as end:
        from crfqn.cli.exits import ExitCode, end_process

        if end.code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
            end_process(end.code)
        raise
