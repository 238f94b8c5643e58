"""`tidegate top` on a terminal: it draws its screen again and again until it is interrupted."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

from harness import START_S, Tidegate, binary, host_port, http_request

TOKEN = "top-admin-token-0123456789abcdef"
# What it sends before each screen.
CLEAR = b"\x1b[H\x1b[2J"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
POLICY = "version: 1\nlimits:\n- { name: per-user, key: [user], sustained: { rate: 5, window: hour } }\n"


class Terminal:
    """A program on a pseudo-terminal, and all that it has written there."""

    def __init__(self, command, environment):
        self.ours, theirs = pty.openpty()
        self.written = b""
        self.running = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
            # A shell ignores SIGINT in what it runs in the background, and these tests may run so.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs)

    def read_until(self, condition):
        """Reads until `condition` is true of what was written; fails if the program ends before."""
        deadline = time.monotonic() + START_S
        while not condition(self.written):
            ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"not within {START_S} s: {self.written!r}"
            try:
                self.written += os.read(self.ours, 65_536)
            except OSError as error:  # Linux answers so when the program has closed the terminal.
                status = self.running.wait(START_S)
                raise AssertionError(f"it ended with {status}: {self.written.decode(errors='replace')}") from error

    def screens(self):
        """The screens that it has drawn completely, as lines without colours."""
        drawn = self.written.split(CLEAR)[1:-1]
        return [COLOUR.sub("", screen.decode(errors="replace")).splitlines() for screen in drawn]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.running.poll() is None:
            self.running.kill()
        self.running.wait()
        os.close(self.ours)


def check(server, user):
    headers = {"Content-Type": "application/json"}
    return http_request(server.http, "POST", "/v1/check", json.dumps({"user": user}), headers)[0]


def shows_denials(screen):
    """Has a screen the rate at which the limit denies, and more denials of the key than it was ever admitted?"""
    rates = [re.fullmatch(r"\s*([0-9.]+)\s+[0-9.]+\s+per-user\s*", line) for line in screen]
    counts = [re.fullmatch(r"\s*([0-9.]+)\s+greedy\s+per-user\s*", line) for line in screen]
    return any(row and float(row[1]) > 0 for row in rates) and any(row and float(row[1]) > 5 for row in counts)


def test_the_screen_is_drawn_until_it_is_interrupted():
    environment = {**os.environ, "TIDEGATE_ADMIN_TOKEN": TOKEN}
    with Tidegate(POLICY, environment=environment) as server:
        command = [binary(), "top", "--interval", "1", "--server", f"http://{host_port(server.admin)}"]
        with Terminal(command, environment) as terminal:
            terminal.read_until(lambda _: len(terminal.screens()) >= 2)
            for screen in terminal.screens():
                assert any("no limit has decided anything" in line for line in screen), terminal.written
                assert not any("greedy" in line for line in screen), terminal.written

            def is_shown(_):
                # A screen has the rates of one second, so that requests must go on until it is drawn.
                assert {check(server, "greedy") for _ in range(20)} <= {200, 429}
                return any(shows_denials(screen) for screen in terminal.screens())

            terminal.read_until(is_shown)
            terminal.running.send_signal(signal.SIGINT)
            assert terminal.running.wait(START_S) in (0, -signal.SIGINT), terminal.running.returncode
