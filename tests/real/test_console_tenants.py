"""The screens Tenants and Audit of the console in a real browser."""

import json
import threading
import urllib.parse

from console_runner import ADMIN, api, new_token, run
from harness import Tidegate, http_request
from postgres import PostgresServer

MARKUP = "<img src=x onerror=alert(1)>"

POLICY = """
version: 1
limits: []
tenants:
  - id: system
    rate_limit: { sharing: enforce, sustained: { rate: 6000, window: minute }, burst: { capacity: 1000 }, budget: { mode: allocated, total: 6000 } }
  - id: partner-a
    parent: system
    description: "<img src=x onerror=alert(1)>"
    rate_limit: { sharing: enforce, sustained: { rate: 3000, window: minute }, burst: { capacity: 300 }, budget: { mode: allocated, total: 3000, overcommit_ratio: 1.2 } }
  - { id: tenant-a1, parent: partner-a, rate_limit: { sustained: { rate: 2000, window: minute }, burst: { capacity: 100 } } }
  - { id: tenant-a2, parent: partner-a, rate_limit: { sustained: { rate: 600, window: minute }, burst: { capacity: 100 } } }
  - { id: partner-b, parent: system, rate_limit: { sharing: inherit, sustained: { rate: 1500, window: minute }, burst: { capacity: 100 }, budget: { mode: allocated } } }
  - { id: tenant-b1, parent: partner-b, rate_limit: { sustained: { rate: 20 }, burst: { capacity: 50 } } }
  - { id: trials, parent: system }
"""


class TenantLoad:
    """Requests of tenants, more than partner-a may have, until the test ends."""

    def __init__(self, server):
        self.server, self.ends = server, threading.Event()
        self.thread = threading.Thread(target=self.send, daemon=True)

    def send(self):
        names = ["tenant-a1", "tenant-a2", "partner-a", "tenant-b1", "trials"]
        while not self.ends.wait(0.05):
            requests = [{"tenant": name, "user": MARKUP, "path": "/api"} for name in names * 3]
            try:
                http_request(self.server.http, "POST", "/v1/check/batch", json.dumps({"requests": requests}))
            except OSError:
                pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def with_tenants(url=None):
    """A server on SQLite, or on PostgreSQL, with the tenants above."""
    arguments = {"environment": {"TIDEGATE_ADMIN_TOKEN": ADMIN}}
    if url is None:
        server = Tidegate(None, "--data", "data", **arguments)
    else:
        server = Tidegate(None, settings=f'database: {{ url: "{url}" }}\n', **arguments)
    api(server, "PUT", f"/policy?reason={urllib.parse.quote(MARKUP)}", POLICY, "application/yaml")
    return server


def tokens(server):
    roles = {role: new_token(server, role)["token"] for role in ("viewer", "editor")}
    return {**roles, "partner": new_token(server, "editor", "partner-a")["token"]}


def check_tenants(url=None):
    with with_tenants(url) as server, TenantLoad(server):
        run("tenants", server, {"admin_token": ADMIN, "tokens": tokens(server)})


def test_tenants_on_sqlite():
    check_tenants()


def test_tenants_on_postgresql():
    with PostgresServer() as postgres:
        check_tenants(postgres.url)


def test_no_tenants():
    with Tidegate(None, "--data", "data", environment={"TIDEGATE_ADMIN_TOKEN": ADMIN}) as server:
        run("first_tenant", server, {"admin_token": ADMIN})


def check_audit(url=None):
    with with_tenants(url) as server, TenantLoad(server):
        api(server, "PATCH", "/tenants/tenant-a2?reason=a%20quiet%20month", {"rate_limit": {"sustained": {"rate": 500}}}, "application/merge-patch+json")
        http_request(server.admin, "GET", "/api/v1/whoami", None, {"Authorization": "Bearer wrong"})
        run("audit", server, {"admin_token": ADMIN, "tokens": tokens(server)})


def test_audit_on_sqlite():
    check_audit()


def test_audit_on_postgresql():
    with PostgresServer() as postgres:
        check_audit(postgres.url)
