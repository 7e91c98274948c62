"""The installed command, and ``python -m pefourier``."""

# Importing `signal` takes time, and an interrupt during it would print a traceback
import _signal as signal
import gc
import sys
import warnings


def run_command() -> None:
    """Run the command and end the process; a signal leaves no partly written file.

    The exit status comes from `pefourier.cli.main.main`, or is 143 after a SIGTERM.
    """
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # otherwise ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # imports need no cleanup
    gc.set_threshold(50_000)  # imports create many objects and leave no garbage
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="pefourier|numpy")
    from pefourier.cli.main import main
    from pefourier.cli.process import LISTENER, leave

    status = 0
    try:
        LISTENER.start()
        try:
            status = main(sys.argv[1:])
        finally:
            LISTENER.leaving = True  # from now on, a signal ends the process immediately
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except SystemExit as ended:  # raised by a signal, or after completion
        status = int(ended.code or 0)
    leave(status)


if __name__ == "__main__":
    run_command()
