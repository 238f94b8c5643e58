"""The screen Key of the console: what support does there takes effect on the decision API."""

from console_runner import ADMIN, api, new_token, run
from harness import Tidegate, free_port
from test_console import with_database

POLICY = "version: 1\nlimits:\n  - { name: slow, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 10 } }\n"


def test_support_lets_a_customer_through():
    with with_database() as server:
        api(server, "PUT", "/policy", POLICY, "application/yaml")
        run("key", server, {"tokens": {role: new_token(server, role)["token"] for role in ("viewer", "operator")}})


def test_a_denial_leads_support_to_the_client():
    port = free_port()
    settings = f"""
admin: {{ console_link: "http://127.0.0.1:{port}/console/" }}
identity: {{ user: ["header:x-user-id"] }}
trust: {{}}
"""
    environment = {"TIDEGATE_ADMIN_TOKEN": ADMIN}
    with Tidegate(None, "--data", "data", settings=settings, environment=environment, ports={"admin": port}) as server:
        api(server, "PUT", "/policy", POLICY + "adaptive: { trust: true }\n", "application/yaml")
        run("support_link", server, {"tokens": {role: new_token(server, role)["token"] for role in ("viewer", "operator")}})
