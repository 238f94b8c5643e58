"""Runs tests, a few in parallel, each in its own process."""

import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time
import traceback
from typing import Callable, NamedTuple

# How many tests run in parallel: of those that are sensitive to timing (True), and of the others. They mostly wait, so
# there are more of them than CPU cores.
AT_ONCE = {True: 2, False: 3}

# The niceness of tests that are not sensitive to timing, so that they yield the CPU to those that are.
NICE = 5

# A child is a fork of this process, so that modules are imported only once.
FORK = multiprocessing.get_context("fork")


class Test(NamedTuple):
    """One test. A module whose tests measure how soon something happens sets `TIME_SENSITIVE = True`."""

    label: str
    function: Callable
    time_sensitive: bool


def tests_of(module):
    """The `test_*` functions of a module."""
    return [
        Test(f"{module.__name__}.{name}", function, getattr(module, "TIME_SENSITIVE", False))
        for name, function in vars(module).items()
        if name.startswith("test_") and callable(function)
    ]


def run_here(test, log):
    """Runs a test in the child; the output of this process and of those it starts goes to the log."""
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    if not test.time_sensitive:
        os.nice(NICE)
    try:
        test.function()
        status = 0
    except BaseException:  # noqa: BLE001: a test may fail in any way
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that a test has left behind must not keep the process alive.
    os._exit(status)


class Running:
    """A test that was started."""

    def __init__(self, test):
        self.test = test
        self.began = time.monotonic()
        self.log = tempfile.TemporaryFile()
        self.child = FORK.Process(target=run_here, args=(test, self.log))
        self.child.start()

    def finish(self):
        """Prints the result; returns whether the test passed."""
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
    """Runs the tests; returns the labels of those that fail."""
    waiting = {time_sensitive: [test for test in tests if test.time_sensitive == time_sensitive] for time_sensitive in AT_ONCE}
    running, failed = {}, []
    # A single thread starts all children: a fork of a process whose other threads hold locks would deadlock.
    while running or any(waiting.values()):
        for time_sensitive, at_once in AT_ONCE.items():
            free = at_once - sum(one.test.time_sensitive == time_sensitive for one in running.values())
            for test in waiting[time_sensitive][:free]:
                started = Running(test)
                running[started.child.sentinel] = started
            del waiting[time_sensitive][:free]
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
