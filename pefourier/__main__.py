"""The installed command, and ``python -m pefourier``."""

import signal
import sys


def run_command() -> None:
    """Run the command; a SIGTERM removes the draft of a file as an interrupt does."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # else it is ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import has nothing to tidy up
    from pefourier.cli.main import main

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run_command()
