"""A real Prometheus scrapes a server, loads the alert rules, and answers every query of the documentation."""

import json
import re
import shutil
import urllib.parse

from harness import ROOT, START_S, Process, Tidegate, free_port, host_port, http_request, require, wait_for
from stores import RedisServer

DASHBOARDS = ROOT / "docs" / "dashboards"

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
tenants:
  - { id: acme, rate_limit: { sustained: { rate: 100, window: hour } } }
routes:
  - { path: "/videos/{id}", cost: 1 }
"""

CONFIGURATION = """
global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: tidegate
    static_configs: [{{ targets: ["{target}"] }}]
"""


class Prometheus(Process):
    """Prometheus with the alert rules of the documentation, which scrapes one server."""

    def __init__(self, target):
        require("prometheus")
        self.address = ("127.0.0.1", free_port())

        def command(path):
            shutil.copy(DASHBOARDS / "alerts.yaml", path)
            (path / "prometheus.yml").write_text(CONFIGURATION.format(target=host_port(target)))
            listen = f"--web.listen-address={host_port(self.address)}"
            return ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", listen]

        super().__init__(command)

    def get(self, path, **arguments):
        """The data of an answer of its API; `None` while it does not answer."""
        self.check_running()
        query = f"?{urllib.parse.urlencode(arguments)}" if arguments else ""
        try:
            _status, _headers, body = http_request(self.address, "GET", f"/api/v1/{path}{query}")
        except OSError:
            return None
        try:
            answer = json.loads(body)
        except ValueError:
            return None  # It answers in plain text until it is ready.
        assert answer["status"] == "success", (arguments, answer)
        return answer["data"]

    def query(self, text):
        """The values of a query, by the labels of their series."""
        result = self.get("query", query=text)["result"]
        return {tuple(sorted(series["metric"].items())): float(series["value"][1]) for series in result}

    def target_is_up(self):
        targets = (self.get("targets") or {}).get("activeTargets", [])
        return [target for target in targets if target["health"] == "up"]


def ask(server, requests):
    for request in requests:
        status, _, body = http_request(server.http, "POST", "/v1/check", json.dumps(request))
        assert status in (200, 429), body


def test_it_scrapes_a_server_and_evaluates_the_alert_rules():
    with RedisServer() as redis:
        settings = f"store: {{ mode: strict, redis: {{ url: {redis.url}, deadline: 2s }} }}\n"
        with Tidegate(POLICY, settings=settings) as server, Prometheus(server.admin) as prometheus:
            ask(server, [{"user": "42", "tenant": "acme", "path": f"/videos/{video}"} for video in range(5)])
            wait_for("the target", prometheus.target_is_up)
            denied = 'tidegate_route_decisions_total{route="/videos/{id}",outcome="denied"}'
            wait_for("the decisions", lambda: list(prometheus.query(denied).values()) == [3.0])
            by_limit = prometheus.query('sum by (limit) (tidegate_decisions_total{outcome="allowed"})')
            assert by_limit == {(("limit", "per-user"),): 2.0, (("limit", "tenant"),): 5.0}, by_limit
            calls = prometheus.query("tidegate_store_call_seconds_count == on () tidegate_store_calls_total")
            assert len(calls) == 1 and 2 <= min(calls.values()) <= 5, calls
            assert list(prometheus.query("tidegate_ready").values()) == [1.0]
            check_rules(prometheus)
            for query in queries():
                prometheus.query(query)


def check_rules(prometheus):
    """Every rule of the file is loaded, and has been evaluated without an error."""
    wanted = re.findall(r"^ *- alert: (\w+)$", (DASHBOARDS / "alerts.yaml").read_text(), re.M)

    def rules():
        groups = prometheus.get("rules")["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        return found if all(rule["health"] != "unknown" for rule in found) else None

    found = wait_for("the rules", rules)
    assert [rule["name"] for rule in found] == wanted and len(wanted) > 10, found
    assert all(rule["health"] == "ok" for rule in found), found


def queries():
    """The queries of the dashboard and of the guides."""
    dashboard = json.loads((DASHBOARDS / "tidegate.json").read_text())
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    variables = {"$job": ".+", "$instance": ".+", "$__rate_interval": "1m"}
    for panel in panels:
        for name, value in variables.items():
            panel = panel.replace(name, value)
        yield panel
    table = re.search(r"^\| question \| query \|\n((?:\|.*\n)+)", (ROOT / "docs/observability.md").read_text(), re.M)
    asked = re.findall(r"`([^`]+)`", table[1])
    assert len(panels) > 30 and len(asked) > 10, "the queries are not found any more"
    yield from asked


def test_alerts_fire_when_they_should():
    require("promtool")
    tests = ROOT / "tests" / "real" / "alerts_test.yaml"
    with Process(lambda path: prepared(path, tests)) as process:
        status = process.running.wait(START_S)
        assert status == 0 and "SUCCESS" in process.output(), process.output()


def prepared(path, tests):
    """The command that tests the rules, whose files must lie in one folder."""
    shutil.copy(DASHBOARDS / "alerts.yaml", path)
    shutil.copy(tests, path)
    return ["promtool", "test", "rules", tests.name]
