"""Who is asking, behind real proxies with the configurations of their guides: the proxy says it, and no client can say it
for somebody else."""

import http.client
import json
import subprocess

from harness import App, Tidegate, binary, http_request, wait_for
from test_caddy import Caddy
from test_envoy import Envoy
from test_nginx import Nginx

# The numbers of a limit tell which tenant or user a request was counted for.
POLICY = """
version: 1
limits:
  - { name: acme, match: { tenant: acme }, key: [tenant], sustained: { rate: 1, window: hour }, burst: { capacity: 1000 } }
  - { name: globex, match: { tenant: globex }, key: [tenant], sustained: { rate: 1, window: hour }, burst: { capacity: 2000 } }
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 3000 } }
  - { name: per-client, match: { plan: pro }, key: [client], sustained: { rate: 1, window: hour }, burst: { capacity: 4000 } }
"""
SETTINGS = """
trusted_proxies: [127.0.0.1/32]
identity:
  tenant: ["header:x-tenant"]
  user: ["header:x-user-id"]
  client: [api_key]
  plan: [api_key]
  trust: ["query:trust"]
api_keys: { file: keys.yaml, unknown: deny }
"""
FILES = {"keys.yaml": "# the keys of our clients\nkeys: []\n"}
FORGED = {"X-Tenant": "globex", "X-User-Id": "42"}


def tidegate():
    return Tidegate(POLICY, settings=SETTINGS, files=FILES)


def limit(answer):
    status, headers, body = answer
    assert status in (200, 204), (status, headers, body)
    return headers.get("x-ratelimit-limit")


def check_through(address, server):
    """What every proxy must do with the configuration of its guide."""
    ask = lambda path="/", **headers: http_request(address, "GET", path, headers=headers)
    acme = {"Host": "acme.api.example.com"}
    assert limit(ask(**acme)) == "1000", "the proxy says whose host it is"
    assert limit(ask(**acme, **FORGED)) == "1000", "whatever the client says"
    for forged in ({"X-Tenant": "globex"}, {"X-User-Id": "42"}, {"X-Tenant": "globex", "x-tenant": "globex"}):
        assert limit(ask(**forged)) is None, f"a host of nobody: {forged}"
    assert limit(ask(**acme, X_Tenant="globex")) == "1000", "nor by another spelling"
    for named in ("X-Tenant", "close, x-tenant, x-user-id"):
        assert limit(ask(**acme, Connection=named)) == "1000", f"nor can it drop what the proxy says: {named}"
    seen = json.loads(ask(**acme, **FORGED)[2])["headers"]
    assert seen.get("x-tenant") == "acme" and not seen.get("x-user-id"), "the app gets the same"

    status, headers, body = ask("/?trust=much")
    assert status == 400 and json.loads(body)["field"] == "query:trust", (status, headers, body)
    assert headers["content-type"] == "application/problem+json", headers
    assert ask("/?trust=0.5")[0] == 200

    for key in ("tg_guess", "x" * 1000):
        status, headers, body = ask(**{"X-API-Key": key})
        assert (status, json.loads(body)["error"]) == (401, "unknown_key"), (status, headers, body)
        assert headers["www-authenticate"] == 'ApiKey error="unknown_key"', headers
    line = [binary(), "key", "create", "--file", "keys.yaml", "--client", "app-1", "--plan", "pro"]
    key = subprocess.run(line, cwd=server.path, check=True, capture_output=True, text=True).stdout.strip()
    keyed = lambda: ask(**{"X-API-Key": key})
    wait_for("the new key", lambda: keyed()[0] == 200)
    assert limit(keyed()) == "4000"
    text = (server.path / "keys.yaml").read_text()
    assert text.startswith("# the keys of our clients\n") and key not in text and key not in server.output()


def test_through_nginx():
    with tidegate() as server, App() as app, Nginx(server.http, app) as proxy:
        check_through(proxy.address, server)


def test_through_caddy():
    with tidegate() as server, App() as app, Caddy(server.http, app) as proxy:
        check_through(proxy.address, server)


def test_through_envoy():
    with tidegate() as server, App() as app, Envoy("envoy/ext-authz.yaml", server, app) as proxy:
        check_through(proxy.address, server)


def ask_from(source, address, path, headers):
    """Asks from another address of this machine, which is no trusted proxy."""
    connection = http.client.HTTPConnection(*address, timeout=10, source_address=(source, 0))
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


def test_a_trusted_proxy_that_sends_a_tenant_is_believed_and_nobody_else_is():
    with tidegate() as server:
        path, tenant = "/v1/forward-auth", {"X-Tenant": "acme"}
        assert limit(ask_from("127.0.0.1", server.http, path, tenant)) == "1000"
        assert limit(ask_from("127.0.0.2", server.http, path, tenant)) is None, "a client that reaches the listener itself"
        seen = lambda source: json.loads(ask_from(source, server.http, "/v1/identify", {**tenant, "Host": "localhost"})[2])
        assert seen("127.0.0.1")["tenant"] == {"value": "acme", "source": "header:x-tenant"}
        assert seen("127.0.0.2") == {"ip": {"value": "127.0.0.2", "source": "peer"}}


def test_without_settings_a_header_is_nobody():
    with Tidegate(POLICY) as server:
        assert limit(http_request(server.http, "GET", "/v1/forward-auth", headers={"X-Tenant": "acme"})) is None
