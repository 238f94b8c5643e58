"""Several servers that share one store, and what they report about it."""

import email.utils
import itertools
import json
import re
import socket
import threading
import time

from harness import START_S, Tidegate, http_request, wait_for

# For tests that count exactly: no call may fail because the machine is busy.
LONG_DEADLINE = "2s"
# The default of the settings.
DEFAULT_DEADLINE = "20ms"
# Redis is used again within 2 s of its return; the rest is slack for a slow machine.
RECOVERY_S = 2 + 2


def settings(mode, url, deadline=LONG_DEADLINE, more=""):
    """The settings file; `more` has further fields of `store.redis`."""
    return f'store: {{ mode: {mode}, redis: {{ url: "{url}", deadline: {deadline}, {more} }} }}\n'


class Node(Tidegate):
    """One server, with shortcuts to call it."""

    def post(self, path, body):
        status, _headers, response = http_request(self.http, "POST", path, json.dumps(body))
        return status, json.loads(response)

    def check(self, **request):
        return self.post("/v1/check", request)

    def admits(self, **request):
        return self.check(**request)[0] == 200

    def remaining(self, limit, **request):
        """How many tokens a limit has left, by a peek."""
        _status, decision = self.post("/v1/peek", request)
        return next(entry["remaining"] for entry in decision["limits"] if entry["name"] == limit)

    def clock(self):
        """Its wall clock, in seconds since 1970."""
        _status, headers, _body = http_request(self.http, "POST", "/v1/check", "{}")
        return email.utils.parsedate_to_datetime(headers["date"]).timestamp()

    def metrics(self):
        return http_request(self.admin, "GET", "/metrics")[2]

    def metric(self, name, text=None, **labels):
        """The sum of the samples of that name with these labels; there must be at least one."""
        found = []
        for text_of_labels, number in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text or self.metrics(), re.M):
            if all(f'{label}="{value}"' in text_of_labels for label, value in labels.items()):
                found.append(float(number))
        assert found, f"no {name} {labels} in the metrics"
        return sum(found)

    def store_problems(self):
        """The status of `/readyz`, and the details of its entries whose reason is `store`."""
        return self.problems("store")

    def closed_limits(self):
        """What `/readyz` says about limits that are closed without the store."""
        return "".join(self.problems("closed_limits")[1])

    def problems(self, reason):
        status, _headers, body = http_request(self.admin, "GET", "/readyz")
        problems = json.loads(body)["degraded"]
        return status, [problem["detail"] for problem in problems if problem["reason"] == reason]

    def resp_connection(self):
        return Resp(self.resp)


class Resp:
    """A RESP connection that sends `TG.CHECK`."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def send(self, *fields):
        words = [b"TG.CHECK", *(str(field).encode() for field in fields)]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def receive(self):
        """Reads one reply; returns whether the request was allowed."""
        head = self.reader.readline()
        if not head:
            raise ConnectionError("closed")
        assert head == b"*7\r\n", head
        numbers = [self.reader.readline() for _ in range(5)]
        for _ in ("violated rule", "degraded"):
            if self.reader.readline() not in (b"$-1\r\n", b"_\r\n"):
                self.reader.readline()
        return numbers[0] == b":1\r\n"

    def check(self, *fields):
        self.send(*fields)
        return self.receive()

    def close(self):
        self.reader.close()
        self.socket.close()


class Fleet:
    """Servers with the same policy on one store. `urls` has the store's address for each of them."""

    def __init__(self, mode, policy, urls, deadline=LONG_DEADLINE, environments=None, more=""):
        self.nodes = []
        environments = environments or [None] * len(urls)
        try:
            for url, environment in zip(urls, environments, strict=True):
                text = settings(mode, url, deadline, more)
                self.nodes.append(Node(policy, settings=text, environment=environment))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def wait_until_all_know_each_other(self):
        """Waits until each node has seen the heartbeats of all others: from then on it knows its share."""
        for node in self.nodes:
            wait_for("all nodes", lambda node=node: node.metric("tidegate_nodes") == len(self.nodes))
        return self

    def wait_until_it_uses_the_store(self, seconds=RECOVERY_S):
        """Waits until the store of every node is up, and `/readyz` lists no problem with it."""

        def uses(node):
            return node.metric("tidegate_store_up") == 1 and node.store_problems() == (200, [])

        wait_for("all nodes to use the store", lambda: all(map(uses, self.alive())), seconds)

    def alive(self):
        return [node for node in self.nodes if node.running.poll() is None]

    def bound(self, limit):
        """By how much all nodes together may exceed a limit, by their metrics; 0 in strict mode, which has no leases."""
        bounds = []
        for node in self.alive():
            text = node.metrics()
            if "tidegate_lease_overshoot_bound_tokens{" in text:
                bounds.append(node.metric("tidegate_lease_overshoot_bound_tokens", text, limit=limit))
        return max(bounds, default=0)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # In parallel, because each takes a while to drain.
        ending = self.alive()
        for node in ending:
            node.running.terminate()
        statuses = [node.running.wait(START_S) for node in ending]
        for node in self.nodes:
            node.__exit__(*error)
        assert error[0] or not any(statuses), f"exit statuses {statuses}"


class Watch:
    """Polls all nodes for the number of decisions that they made without the store."""

    EVERY_S = 0.1

    def __init__(self, fleet):
        self.fleet = fleet
        # For each node: pairs of an instant and the number of decisions by its local share so far.
        self.seen = [[] for _ in fleet.nodes]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.wait(self.EVERY_S):
            self.sample()

    def sample(self):
        for node, seen in zip(self.fleet.nodes, self.seen, strict=True):
            try:
                count = node.metric("tidegate_store_fallback_decisions_total", choice="local")
            except OSError:
                continue
            seen.append((time.monotonic(), count))

    def __enter__(self):
        self.sample()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.sample()

    def fallback_decisions(self):
        """How many decisions the nodes made from their local shares."""
        return sum(seen[-1][1] - seen[0][1] for seen in self.seen)

    def most_admitted_by_fallback(self, capacity, rate):
        """The most that the nodes can have admitted from their local shares: for each node, at most its number of such
        decisions, and at most what a bucket of its share holds and gains from the first of them to the last."""
        total = 0.0
        share = 1 / len(self.seen)
        for seen in self.seen:
            grew = [(before, after) for before, after in itertools.pairwise(seen) if after[1] > before[1]]
            if grew:
                used_for = grew[-1][1][0] - grew[0][0][0]
                total += min(seen[-1][1] - seen[0][1], share * (capacity + rate * used_for))
        return total
