"""Runs the tests against real clients and proxies: all of them, or those of the named modules.

    TIDEGATE_BIN=target/release/tidegate python tests/real/run.py [nginx envoy …]
"""

import importlib
import pathlib
import sys

import harness
import runner


def main():
    here = pathlib.Path(__file__).parent
    known = sorted(path.stem.removeprefix("test_") for path in here.glob("test_*.py"))
    selected = sys.argv[1:] or known
    if unknown := [name for name in selected if name not in known]:
        sys.exit(f"no such tests: {', '.join(unknown)}; there are {', '.join(known)}")
    harness.binary()
    sys.exit(runner.run([importlib.import_module(f"test_{name}") for name in selected]))


if __name__ == "__main__":
    main()
