"""`tidegate top` on a terminal: it draws its screen again and again until it is ended."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

from harness import START_S, Tidegate, binary, host_port, http_request

TOKEN = "top-admin-token-0123456789abcdef"
# What it sends before each screen, and when it ends: back from the alternate screen.
HOME, LEAVE = b"\x1b[H", b"\x1b[?1049l"
CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
POLICY = "version: 1\nlimits:\n- { name: per-user, key: [user], sustained: { rate: 5, window: hour } }\n"


def become_foreground():
    """In the child: the terminal is its own, so that keys and resizes become signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A shell ignores SIGINT in what it runs in the background, and these tests may run so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A program on a pseudo-terminal, and all that it has written there."""

    def __init__(self, command, environment, rows=24, columns=80):
        self.ours, theirs = pty.openpty()
        self.written = b""
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.ours)
        self.running = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
            preexec_fn=become_foreground,
        )
        os.close(theirs)

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key):
        os.write(self.ours, key)

    def ended(self):
        """The exit status, once it has ended, and everything that it has written is read."""
        self.read_until(lambda written: written.endswith(LEAVE))
        return self.running.wait(START_S)

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
        drawn = self.written.split(HOME)[1:-1]
        return [CODE.sub("", screen.decode(errors="replace")).splitlines() for screen in drawn]

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


def columns(line):
    """How many columns a line takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


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
            assert termios.tcgetattr(terminal.ours) != terminal.modes, "keys arrive at once"
            terminal.press(b"\x03")
            assert terminal.ended() == 0
            assert termios.tcgetattr(terminal.ours) == terminal.modes


def test_the_screen_fits_the_terminal_and_ends_by_a_key():
    environment = {**os.environ, "TIDEGATE_ADMIN_TOKEN": TOKEN}
    limits = "".join(f"- {{ name: limit-{n}, key: [user], sustained: {{ rate: 5, window: hour }} }}\n" for n in range(20))
    with Tidegate(f"version: 1\nlimits:\n{limits}", environment=environment) as server:
        command = [binary(), "top", "--interval", "1", "--server", f"http://{host_port(server.admin)}"]
        with Terminal(command, environment) as terminal:

            def is_cut(_):
                # Wide letters take two columns each.
                assert {check(server, f"{n}-" + "\u4e2d" * 60) for n in range(20)} <= {200, 429}
                return any(any("\u2026 and" in line for line in screen) for screen in terminal.screens())

            terminal.read_until(is_cut)
            for screen in terminal.screens():
                assert len(screen) <= 24 and screen[0].startswith("tidegate  http"), screen
                assert all(columns(line) <= 80 for line in screen), screen
            seen = len(terminal.screens())
            terminal.resize(6, 40)
            terminal.read_until(lambda _: len(terminal.screens()[seen:]) >= 3)
            for screen in terminal.screens()[seen + 2 :]:
                assert len(screen) <= 6 and screen[0].startswith("tidegate  http"), screen
                assert all(columns(line) <= 40 for line in screen), screen
            terminal.press(b"x")
            terminal.press(b"q")
            assert terminal.ended() == 0
            assert termios.tcgetattr(terminal.ours) == terminal.modes


def test_a_signal_ends_it_and_the_terminal_is_as_before():
    environment = {**os.environ, "TIDEGATE_ADMIN_TOKEN": TOKEN}
    with Tidegate(POLICY, environment=environment) as server:
        command = [binary(), "top", "--server", f"http://{host_port(server.admin)}"]
        for ends in (signal.SIGTERM, signal.SIGINT):
            with Terminal(command, environment) as terminal:
                terminal.read_until(lambda _: terminal.screens())
                terminal.running.send_signal(ends)
                assert terminal.ended() == 0
                assert termios.tcgetattr(terminal.ours) == terminal.modes
