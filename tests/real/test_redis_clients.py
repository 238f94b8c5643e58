"""Common Redis clients: redis-cli, redis-benchmark, redis-py in both protocols, ioredis."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import redis
from harness import GUIDES, Tidegate, require
from redis.backoff import NoBackoff
from redis.retry import Retry

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 3 } }
"""
PASSWORD = "correct horse"
NODE = pathlib.Path(__file__).parent / "node"


def cli(server, *arguments, text=None, password=None):
    host, port = server.resp
    line = ["redis-cli", "-h", host, "-p", str(port), *(["-a", password, "--no-auth-warning"] if password else [])]
    done = subprocess.run([*line, *arguments], input=text, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() + done.stderr.strip()


def test_redis_cli():
    require("redis-cli", "redis-benchmark")
    with Tidegate(POLICY) as server:
        assert cli(server, "ping") == "PONG"
        assert cli(server, "CL.THROTTLE", "user123", "15", "30", "60") == "0\n16\n15\n-1\n2"
        assert cli(server, "-3", "TG.CHECK", "user", "cli") == "1\n3\n2\n0\n86400000"
        assert cli(server, "--no-raw", "TG.CHECK", "plan", "x").endswith("6) (nil)\n7) (nil)")
        assert cli(server, "CL.THROTTLE", "k", "1", "0", "1").startswith("ERR zero rates")
        assert cli(server, "GET", "k").startswith("ERR unknown command 'GET', with args beginning with: 'k'")
        # The interactive prompt first requests the documentation of all commands.
        assert "PONG" in cli(server, text="ping\ninfo\ncommand docs\n")
        assert "tidegate_version:" in cli(server, "info")
        many = "*1\r\n$4\r\nPING\r\n" * 50_000
        assert "errors: 0, replies: 50000" in cli(server, "--pipe", text=many)
        host, port = server.resp
        load = ["redis-benchmark", "-h", host, "-p", str(port), "-n", "20000", "-P", "16", "-q"]
        output = subprocess.check_output([*load, "CL.THROTTLE", "load", "15", "30", "60"], text=True, timeout=60)
        assert "requests per second" in output, output


def test_redis_cli_with_a_password():
    require("redis-cli")
    with Tidegate(POLICY, environment={"TIDEGATE_RESP_PASSWORD": PASSWORD}) as server:
        assert cli(server, "ping").startswith("NOAUTH")
        assert "WRONGPASS" in cli(server, "ping", password="wrong")
        assert cli(server, "ping", password=PASSWORD) == "PONG"


def test_redis_py():
    for protocol in (2, 3):
        with Tidegate(POLICY) as server:
            host, port = server.resp
            with redis.Redis(host, port, protocol=protocol, client_name="real", health_check_interval=1) as client:
                assert client.ping()
                assert client.client_getname() in ("real", b"real")
                assert client.client_id() > 0
                assert client.info()["tidegate_version"]
                assert client.echo("é".encode()) == "é".encode()
                assert client.execute_command("CL.THROTTLE", "user123", 15, 30, 60) == [0, 16, 15, -1, 2]
                assert client.execute_command("TG.CHECK", "user", "py") == [1, 3, 2, 0, 86_400_000, None, None]
                for _ in range(3):
                    denied = client.execute_command("TG.CHECK", "user", "py")
                assert (denied[0], denied[5]) == (0, b"per-user")
                assert "cl.throttle" in client.command()
                check_errors(client)
                check_pipelines(client)


def check_errors(client):
    for arguments, message in [
        (("CL.THROTTLE", "k", 1), "wrong number of arguments"),
        (("CL.THROTTLE", "k", 1, 1, 1, -1), "quantity is negative"),
        (("CL.THROTTLE", "k" * 5000, 1, 1, 1), "an argument is too long"),
        (("TG.CHECK", "usr", "a"), "did you mean 'user'?"),
        (("SET", "a", "b"), "unknown command 'SET'"),
    ]:
        try:
            client.execute_command(*arguments)
        except redis.ResponseError as error:
            assert message in str(error), error
        else:
            raise AssertionError(f"{arguments} is not an error")


def check_pipelines(client):
    pipeline = client.pipeline(transaction=False)
    for number in range(10_000):
        pipeline.execute_command("CL.THROTTLE", f"many:{number % 10}", 4, 1, 3600)
    assert sum(answer[0] == 0 for answer in pipeline.execute()) == 50
    check_transactions(client)


def check_transactions(client):
    """`pipeline()` as it is by default: wrapped in MULTI and EXEC."""
    pipeline = client.pipeline()
    for number in range(5_000):
        pipeline.execute_command("CL.THROTTLE", f"wrapped:{number % 10}", 4, 1, 3600)
    assert sum(answer[0] == 0 for answer in pipeline.execute()) == 50
    pipeline = client.pipeline()
    pipeline.execute_command("CL.THROTTLE", "unharmed", 4, 1, 3600)
    pipeline.execute_command("SET", "a", "b")
    try:
        pipeline.execute()
    except redis.ResponseError as error:
        assert "unknown command 'SET'" in str(error), error
    else:
        raise AssertionError("SET is not refused")
    assert client.execute_command("CL.THROTTLE", "unharmed", 4, 1, 3600)[2] == 4, "nothing was charged"


def test_redis_py_with_a_password():
    with Tidegate(POLICY, environment={"TIDEGATE_RESP_PASSWORD": PASSWORD}) as server:
        host, port = server.resp
        for protocol in (2, 3):
            for name in (None, "default"):
                with redis.Redis(host, port, protocol=protocol, username=name, password=PASSWORD) as client:
                    assert client.execute_command("CL.THROTTLE", f"{protocol}{name}", 15, 30, 60)[:3] == [0, 16, 15]
            for wrong in (None, "wrong"):
                try:
                    redis.Redis(host, port, protocol=protocol, password=wrong, retry=Retry(NoBackoff(), 0)).ping()
                except redis.AuthenticationError:
                    continue
                raise AssertionError("a wrong password is accepted")


def test_ioredis():
    require("node")
    for password in (None, PASSWORD):
        environment = {"TIDEGATE_RESP_PASSWORD": password} if password else {}
        with Tidegate(POLICY, environment=environment) as server:
            host, port = server.resp
            line = ["node", str(NODE / "redis_client.js"), host, str(port), *([password] if password else [])]
            answers = json.loads(subprocess.check_output(line, text=True, timeout=60))
        assert answers.pop("error").startswith("ERR max_burst is not an integer"), answers
        assert answers == {
            "ping": "PONG",
            "name": "real",
            "throttle": [0, 16, 15, -1, 2],
            "check": [1, 3, 2, 0, 86_400_000, None, None],
            "admitted": 10,
            "transaction": 10,
            "status": "ready",
        }


def test_the_guide_runs():
    """Runs the Python blocks of the guide unchanged."""
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / "redis-clients.md").read_text(), re.S)
    assert blocks, "the guide has an example"
    with Tidegate(POLICY) as server, tempfile.TemporaryDirectory() as folder:
        host, port = server.resp
        for block in blocks:
            assert "port=6380" in block
            script = pathlib.Path(folder) / "guide.py"
            script.write_text(block.replace("port=6380", f'host="{host}", port={port}'))
            output = subprocess.check_output([sys.executable, str(script)], text=True, timeout=60)
            assert output.strip(), "the example prints what it does"
