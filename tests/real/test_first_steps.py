"""The first steps of a new user: start the server without a policy, and run the commands that it prints."""

import json
import os
import re
import subprocess

from harness import START_S, Process, binary, wait_for


class QuickStart(Process):
    """`tidegate serve` without other arguments, but at free ports."""

    def __init__(self):
        ports = [word for name in ("http", "grpc", "resp", "admin") for word in (f"--{name}", "127.0.0.1:0")]
        super().__init__(lambda _folder: [binary(), "serve", *ports], env=os.environ)
        self.commands = wait_for("the commands to try", self.printed_commands)

    def printed_commands(self):
        self.check_running()
        lines = re.search(r"^Try:\n((?:  .+\n)+)", self.output(), re.M)
        return [line.strip() for line in lines[1].splitlines()] if lines else None


def test_the_commands_that_are_printed_work():
    with QuickStart() as server:
        assert len(server.commands) == 2, server.commands
        outputs = []
        for command in server.commands:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=START_S, check=False)
            assert done.returncode == 0, (command, done.stderr)
            outputs.append(done.stdout)
        decision = json.loads(outputs[0])
        assert (decision["allowed"], decision["limit"], decision["remaining"]) == (True, 50, 49), decision
        assert outputs[1].split() == ["0", "16", "15", "-1", "2"], outputs[1]


def test_it_ends_when_it_is_told_to():
    with QuickStart() as server:
        assert server.stop() == 0
        assert "stopped" in server.output()
