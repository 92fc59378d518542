"""``python -m fidelity PROGRAM --out FILE``: see `fidelity.runs`."""

from fidelity.runs import main

main()
