"""`tidegate demo` in a real browser: every screen has something to show. It also makes the pictures of the documentation: see README.md."""

import os
import pathlib
import re
import subprocess
import time

from console_runner import run
from harness import ROOT, START_S, Tidegate, binary, wait_for


class Demo(Tidegate):
    """`tidegate demo` at free ports; `tokens` has those that it prints, by name."""

    COMMAND = "demo"

    def __init__(self):
        super().__init__(None)
        wait_for("the commands to try", lambda: re.search(r"^Try:\n(  .+\n)+\n", self.output(), re.M))
        self.tokens = dict(re.findall(r"^  (admin|support|partner)\s+(tga_\S+)", self.output(), re.M))


def pictures():
    """Where the pictures go: into the folder that DEMO_PICTURES names, or to those of the other tests."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str((ROOT / os.environ["DEMO_PICTURES"]).resolve() if "DEMO_PICTURES" in os.environ else target / "console" / "demo")


def test_screens():
    with Demo() as server:
        # A picture of the last hour needs one.
        minutes = int(os.environ.get("DEMO_MINUTES", "0"))
        time.sleep(60 * minutes)
        run("demo", server, {"tokens": server.tokens, "pictures": pictures(), "seconds_on_now": min(60 * minutes, 60)})


def test_the_commands_that_are_printed_work():
    with Demo() as server:
        commands = re.search(r"^Try:\n((?:  .+\n)+)", server.output(), re.M)[1].splitlines()
        top, check = (command.strip().replace("tidegate ", f"{binary()} ", 1) for command in commands)
        done = subprocess.run(check, shell=True, capture_output=True, text=True, timeout=START_S, check=False)
        assert "per-user" in done.stdout + done.stderr, (check, done)

        def shows_traffic():
            once = subprocess.run(f"{top} --once", shell=True, capture_output=True, text=True, timeout=START_S, check=False)
            assert once.returncode == 0, (top, once)
            return "per-user" in once.stdout

        # It has the rates of the last second, and the commands are printed before the first second has ended.
        wait_for("traffic in `tidegate top`", shows_traffic)
