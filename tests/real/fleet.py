"""Several servers that share one store, and what they say about it."""

import email.utils
import itertools
import json
import re
import socket
import threading
import time

from harness import START_S, Tidegate, http_request, wait_for

# For tests that count exactly: no call may fail because the machine is busy.
PATIENT = "2s"
# What people have who set nothing.
USUAL = "20ms"
# Redis is used again within 2 s of its return; the rest is for a slow machine.
HEAL_S = 2 + 2


def settings(mode, url, deadline=PATIENT, more=""):
    """The settings file; `more` is what else there is to say about the store's Redis."""
    return f'store: {{ mode: {mode}, redis: {{ url: "{url}", deadline: {deadline}, {more} }} }}\n'


class Node(Tidegate):
    """One server, and short ways to ask it."""

    def post(self, path, body):
        status, _headers, said = http_request(self.http, "POST", path, json.dumps(body))
        return status, json.loads(said)

    def check(self, **request):
        return self.post("/v1/check", request)

    def admits(self, **request):
        return self.check(**request)[0] == 200

    def remaining(self, limit, **request):
        """What a limit has left, as a peek tells."""
        _status, told = self.post("/v1/peek", request)
        return next(entry["remaining"] for entry in told["limits"] if entry["name"] == limit)

    def clock(self):
        """What time it believes to be, in seconds since 1970."""
        _status, headers, _body = http_request(self.http, "POST", "/v1/check", "{}")
        return email.utils.parsedate_to_datetime(headers["date"]).timestamp()

    def metrics(self):
        return http_request(self.admin, "GET", "/metrics")[2]

    def metric(self, name, text=None, **labels):
        """The sum of the samples of that name which carry these labels; there must be one."""
        found = []
        for said, number in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text or self.metrics(), re.M):
            if all(f'{label}="{value}"' in said for label, value in labels.items()):
                found.append(float(number))
        assert found, f"no {name} {labels} in the metrics"
        return sum(found)

    def store_troubles(self):
        """What `/readyz` has against the store: its status, and the details where the reason is the store."""
        status, _headers, body = http_request(self.admin, "GET", "/readyz")
        told = json.loads(body)
        troubles = told["unready"] + told["degraded"]
        return status, [trouble["detail"] for trouble in troubles if trouble["reason"] == "store"]

    def resp_connection(self):
        return Resp(self.resp)


class Resp:
    """A connection that asks with `TG.CHECK`."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def send(self, *fields):
        words = [b"TG.CHECK", *(str(field).encode() for field in fields)]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def receive(self):
        """Was it allowed?"""
        head = self.reader.readline()
        if not head:
            raise ConnectionError("closed")
        assert head == b"*6\r\n", head
        answers = [self.reader.readline() for _ in range(6)]
        if answers[5] != b"$-1\r\n" and answers[5] != b"_\r\n":
            self.reader.readline()
        return answers[0] == b":1\r\n"

    def check(self, *fields):
        self.send(*fields)
        return self.receive()

    def close(self):
        self.reader.close()
        self.socket.close()


class Fleet:
    """Servers with one policy on one store. `urls` has an address for each of them."""

    def __init__(self, mode, policy, urls, deadline=PATIENT, ready=(200,), environments=None, more=""):
        self.nodes = []
        environments = environments or [None] * len(urls)
        try:
            for url, environment in zip(urls, environments, strict=True):
                said = settings(mode, url, deadline, more)
                self.nodes.append(Node(policy, settings=said, ready=ready, environment=environment))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def wait_until_all_know_each_other(self):
        """Each has heard of all the others: from then on it knows its share."""
        for node in self.nodes:
            wait_for("all nodes", lambda node=node: node.metric("tidegate_nodes") == len(self.nodes))
        return self

    def wait_until_it_uses_the_store(self, seconds=HEAL_S):
        """Every node's store is up, and readiness has nothing against it."""

        def uses(node):
            return node.metric("tidegate_store_up") == 1 and node.store_troubles() == (200, [])

        wait_for("all nodes to use the store", lambda: all(map(uses, self.alive())), seconds)

    def alive(self):
        return [node for node in self.nodes if node.running.poll() is None]

    def bound(self, limit):
        """By how much all together may exceed a limit, as they publish it; strict stores have no lease."""
        said = []
        for node in self.alive():
            text = node.metrics()
            if "tidegate_lease_overshoot_bound_tokens{" in text:
                said.append(node.metric("tidegate_lease_overshoot_bound_tokens", text, limit=limit))
        return max(said, default=0)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # All at once, since each takes its time to drain.
        ending = self.alive()
        for node in ending:
            node.running.terminate()
        statuses = [node.running.wait(START_S) for node in ending]
        for node in self.nodes:
            node.__exit__(*error)
        assert error[0] or not any(statuses), f"exit statuses {statuses}"


class Watch:
    """Looks at all nodes again and again: is their store up, and how much did they decide without it?"""

    EVERY_S = 0.1

    def __init__(self, fleet):
        self.fleet = fleet
        # For each node: when, and how many decisions its own share has made so far.
        self.seen = [[] for _ in fleet.nodes]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.wait(self.EVERY_S):
            self.look()

    def look(self):
        for node, seen in zip(self.fleet.nodes, self.seen, strict=True):
            try:
                count = node.metric("tidegate_store_fallback_decisions_total", choice="local")
            except OSError:
                continue
            seen.append((time.monotonic(), count))

    def __enter__(self):
        self.look()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.look()

    def decided_without(self):
        """How many decisions were made from nodes' own shares."""
        return sum(seen[-1][1] - seen[0][1] for seen in self.seen)

    def most_admitted_without(self, capacity, rate):
        """The most that the nodes can have admitted from their own shares: each of them no more than it has decided
        so, nor than a bucket of its share holds and gains from the first such decision to the last."""
        total = 0.0
        share = 1 / len(self.seen)
        for seen in self.seen:
            grew = [(before, after) for before, after in itertools.pairwise(seen) if after[1] > before[1]]
            if grew:
                used_for = grew[-1][1][0] - grew[0][0][0]
                total += min(seen[-1][1] - seen[0][1], share * (capacity + rate * used_for))
        return total
