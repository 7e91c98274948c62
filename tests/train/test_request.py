"""What was asked is judged before torch is loaded."""

import subprocess
import sys

REFUSED = {
    "--seeds 0": "--seeds must be a whole number from 1 on; got 0",
    "--dataset nosuch": "unknown dataset 'nosuch'. Known: grid, ",
    "-e nosuch": "unknown encoding 'nosuch'. 'pefourier list' shows all; ",
    "-e rope:foo=3": "unknown parameter of rope 'foo'. Known: ",
    "--epochs 5 --steps 5": "--steps and --epochs say the same; give one of them",
    "--beside tree": "unknown method of --beside 'tree'. Did you mean 'trees'?",
    "--search rate=x": "--search rate must be a finite number; got 'x'",
    "--test-length 48 --dataset digits": "--test-length needs a built-in task (lags, order);",
    "--rate -1": "--rate must be a finite number above 0; got -1.0",
}


def test_a_refusal_costs_no_torch():
    code = (
        "import sys; from pefourier.cli.main import main\n"
        f"for one in {list(REFUSED)!r}: print(main(['train', *one.split()]))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"] * len(REFUSED) + ["False"]
    for said, expected in zip(done.stderr.splitlines(), REFUSED.values(), strict=True):
        assert said.startswith(f"pefourier: {expected}")
