"""The installed command, and ``python -m pefourier``."""

# `signal` takes time to import, in which an interrupt would show where
import _signal as signal
import sys
import warnings


def run_command() -> None:
    """Run the command and end the process; a signal leaves no draft of a file.

    The status is that of `pefourier.cli.main.main`, or 143 after a SIGTERM.
    """
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # else it is ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import has nothing to tidy up
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="pefourier|numpy")
    from pefourier.cli.main import main
    from pefourier.cli.process import LISTENER, leave

    status = 0
    try:
        LISTENER.start()
        try:
            status = main(sys.argv[1:])
        finally:
            LISTENER.leaving = True  # from here on a signal ends the process at once
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except SystemExit as ended:  # by a signal, or completion is done
        status = int(ended.code or 0)
    leave(status)


if __name__ == "__main__":
    run_command()
