"""The admin API answers as its OpenAPI document says: schemathesis makes requests of the document, valid and not."""

import json
import subprocess
import sys

from harness import Tidegate, host_port, http_request

TOKEN = "token-of-the-real-tests-0123456789abcdef"
# Two trees of tenants, and an entry in each collection.
POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 5 } }
  - { name: of-shop, key: [user], match: { tenant: shop }, sustained: { rate: 5 } }
routes:
  - { id: items, path: "/items/{id}", methods: [GET], cost: 2 }
upstreams: [{ name: billing }]
allow:
  - { id: partner, "header:x-api-key": a-partner-key }
block:
  - { id: nobody, tenant: shop, user: nobody }
tenants:
  - { id: acme, rate_limit: { sustained: { rate: 9 } } }
  - { id: shop, parent: acme, rate_limit: { sustained: { rate: 3 } } }
  - { id: other, rate_limit: { sustained: { rate: 9 } } }
"""
# How many random requests each route gets, besides those that schemathesis makes for each rule of its schemas.
EXAMPLES = 10
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "negative_data_rejection",
]

# A stale `If-Match` is told before anything else about a change.
SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 409, 412, 413, 415, 422, 429]
"""


def call(server, method, path, body, media_type="application/json"):
    """Calls the API as the first admin; returns the JSON of the answer."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": media_type}
    status, _headers, answer = http_request(server.admin, method, f"/api/v1{path}", body, headers)
    assert status < 300, (status, answer)
    return json.loads(answer)


def check(role, tenant=None, phase="fuzzing"):
    """Runs schemathesis with a new token."""
    with Tidegate(None, "--data", "data", environment={"TIDEGATE_ADMIN_TOKEN": TOKEN}) as server:
        call(server, "PUT", "/policy", POLICY, "application/yaml")
        wanted = {"role": role, **({"tenant": tenant} if tenant else {})}
        token = call(server, "POST", "/tokens", json.dumps(wanted))["token"]
        (server.path / "schemathesis.toml").write_text(SETTINGS)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://{host_port(server.admin)}/api/v1/openapi.json"]
        command += ["--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS)]
        command += ["--phases", phase, "--max-examples", str(EXAMPLES)]
        command += ["--generation-deterministic"]
        command += ["--suppress-health-check", "all", "--warnings", "off", "--no-color", "--continue-on-failure"]
        done = subprocess.run(command, cwd=server.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout


def test_each_rule_of_the_document():
    check("admin", phase="coverage")


def test_the_document_as_an_admin():
    check("admin")


def test_the_document_as_a_viewer():
    check("viewer")


def test_the_document_as_an_admin_of_a_tenant():
    check("admin", "acme")
