"""Runs a scenario of the console in real Chromium: one of the files in the folder `console`."""

import json
import os
import pathlib
import shutil
import subprocess

from harness import ROOT, host_port, http_request

SCENARIOS = pathlib.Path(__file__).parent / "console"
ADMIN = "token-of-the-console-tests-0123456789abcdef"


def chromium():
    path = shutil.which("chromium")
    if not path:
        raise AssertionError("`chromium` is missing: ./test real installs it")
    return path


def api(server, method, path, body=None, media_type="application/json", token=ADMIN):
    """Calls the admin API; returns the JSON of the answer."""
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    headers = {"Authorization": f"Bearer {token}", **({"Content-Type": media_type} if text else {})}
    status, _headers, answer = http_request(server.admin, method, f"/api/v1{path}", text, headers)
    assert status < 300, (method, path, status, answer)
    return json.loads(answer)


def new_token(server, role, tenant=None):
    """A token of that role."""
    wanted = {"role": role, "description": f"a {role} of the test", **({"tenant": tenant} if tenant else {})}
    return api(server, "POST", "/tokens", wanted)


def run(scenario, server, settings=None, handlers=None):
    """Runs a scenario; `handlers` are functions that do what it asks for, by name."""
    settings = {"admin": f"http://{host_port(server.admin)}", "http": f"http://{host_port(server.http)}", **(settings or {})}
    shots = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "console"
    environment = {**os.environ, "CONSOLE_TEST": json.dumps(settings), "CHROMIUM": chromium(), "CONSOLE_SHOTS": str(shots)}
    command = ["node", str(SCENARIOS / "main.js"), scenario]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        for line in node.stdout:
            if not line.startswith("@"):
                print(line, end="")
                continue
            asked = json.loads(line[1:])
            try:
                answer = {"value": handlers[asked.pop("what")](**asked)}
            except Exception as error:  # noqa: BLE001: the scenario says where it failed
                answer = {"error": repr(error)}
            node.stdin.write(json.dumps(answer) + "\n")
            node.stdin.flush()
    assert node.returncode == 0, f"the scenario {scenario} failed"
