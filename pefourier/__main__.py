"""python -m pefourier"""

from pefourier.cli import run

if __name__ == "__main__":
    run()
