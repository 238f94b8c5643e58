"""The screens Policy and Try of the console in a real browser."""

from console_runner import ADMIN, api, new_token, run
from harness import Tidegate
from postgres import PostgresServer
from test_console import with_database

POLICY = """# Each user has a bucket, and requests without a user share one.
version: 1
limits:
  - name: per-user
    burst: { capacity: 10 }
    key: [user]
    missing: shared
    sustained: { rate: 5, window: second }  # tokens
    description: "<b>bold</b>"
"""
TENANTS = 'tenants:\n  - { id: acme, rate_limit: { sustained: { rate: 9 } } }\n'


def check_policy(url=None):
    with with_database(url=url) as server:
        api(server, "PUT", "/policy", POLICY, "application/yaml")
        tokens = {role: new_token(server, role)["token"] for role in ("editor", "viewer")}
        handlers = {"publish": lambda text: api(server, "PUT", "/policy", text, "application/yaml")}
        run("policy", server, {"tokens": tokens, "policy": POLICY}, handlers)


def test_policy_on_sqlite():
    check_policy()


def test_policy_on_postgresql():
    with PostgresServer() as postgres:
        check_policy(postgres.url)


def test_policy_of_a_file():
    environment = {"TIDEGATE_ADMIN_TOKEN": ADMIN}
    text = POLICY.replace("capacity: 10", "capacity: 50")
    with Tidegate(text, environment=environment) as server:
        run("policy_file", server, {"token": ADMIN, "policy": text})


def test_candidates():
    with with_database() as server:
        api(server, "PUT", "/policy", POLICY.replace("window: second", "window: hour"), "application/yaml")
        run("policy_candidates", server, {"tokens": {"editor": new_token(server, "editor")["token"]}})


def test_try():
    with with_database() as server:
        slow = POLICY.replace("window: second", "window: hour")
        api(server, "PUT", "/policy", slow + TENANTS, "application/yaml")
        tokens = {"editor": new_token(server, "editor")["token"], "partner": new_token(server, "viewer", "acme")["token"]}
        run("try", server, {"tokens": tokens})


def test_a_long_policy():
    limits = (f"  - {{ name: limit-{number:04}, match: {{ path: /api/{number}/** }}, key: [ip], sustained: {{ rate: 10 }} }}\n" for number in range(3_000))
    policy = "version: 1\nlimits:\n" + "".join(limits)
    with with_database() as server:
        api(server, "PUT", "/policy", policy, "application/yaml")
        run("long_policy", server, {"token": ADMIN})
