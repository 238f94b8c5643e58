"""Runs tests, a few at a time, each in a process of its own."""

import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time
import traceback
from typing import Callable, NamedTuple

# How many run at once, of those that measure how soon something happens and of the others. They mostly wait, so there
# are more of them than processors.
AT_ONCE = {True: 2, False: 3}

# How far those that do not measure make way for those that do.
NICE = 5

# A child is a copy of this process: what the tests import is imported once.
FORKED = multiprocessing.get_context("fork")


class Test(NamedTuple):
    """One test. A module whose tests measure how soon something happens says `MEASURES = True`."""

    label: str
    function: Callable
    measures: bool


def tests_of(module):
    """The `test_*` functions of a module."""
    return [
        Test(f"{module.__name__}.{name}", function, getattr(module, "MEASURES", False))
        for name, function in vars(module).items()
        if name.startswith("test_") and callable(function)
    ]


def run_here(test, log):
    """In the child: all that is said, by this process and by those it starts, goes to the log."""
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    if not test.measures:
        os.nice(NICE)
    try:
        test.function()
        status = 0
    except BaseException:  # noqa: BLE001: a test may fail in any way
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that a test has left behind must not keep its process.
    os._exit(status)


class Running:
    """A test that was started."""

    def __init__(self, test):
        self.test = test
        self.began = time.monotonic()
        self.log = tempfile.TemporaryFile()
        self.child = FORKED.Process(target=run_here, args=(test, self.log))
        self.child.start()

    def finish(self):
        """Says what came of it, and whether that is good."""
        self.child.join()
        passed = self.child.exitcode == 0
        with self.log as log:
            if not passed:
                log.seek(0)
                print(log.read().decode(errors="replace"))
        word = "ok     " if passed else "FAILED "
        print(f"{word} {self.test.label} ({time.monotonic() - self.began:.1f} s)", flush=True)
        return passed


def run_all(tests):
    """The labels of those that fail."""
    waiting = {measures: [test for test in tests if test.measures == measures] for measures in AT_ONCE}
    running, failed = {}, []
    # One thread does it all: a copy of a process in which others hold locks would find them locked for ever.
    while running or any(waiting.values()):
        for measures, at_once in AT_ONCE.items():
            free = at_once - sum(one.test.measures == measures for one in running.values())
            for test in waiting[measures][:free]:
                started = Running(test)
                running[started.child.sentinel] = started
            del waiting[measures][:free]
        for ended in multiprocessing.connection.wait(list(running)):
            one = running.pop(ended)
            if not one.finish():
                failed.append(one.test.label)
    return failed


def run(modules):
    """Runs every test of the modules; the exit status is 1 if one failed."""
    tests = [test for module in modules for test in tests_of(module)]
    failed = run_all(tests)
    print(f"{len(tests) - len(failed)} passed, {len(failed)} failed" + "".join(f"\n  {label}" for label in failed))
    return 1 if failed else 0
