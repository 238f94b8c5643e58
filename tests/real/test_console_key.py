"""The screen Key of the console: what support does there takes effect on the decision API."""

from console_runner import api, new_token, run
from test_console import with_database

POLICY = "version: 1\nlimits:\n  - { name: slow, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 10 } }\n"


def test_support_lets_a_customer_through():
    with with_database() as server:
        api(server, "PUT", "/policy", POLICY, "application/yaml")
        run("key", server, {"tokens": {role: new_token(server, role)["token"] for role in ("viewer", "operator")}})
