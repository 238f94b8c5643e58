"""Sends many requests from many threads, and checks that the admitted ones are within the promised bound."""

import pathlib
import threading
import time
from typing import NamedTuple


class Exchange(NamedTuple):
    """One request and its answer: when it was sent and answered, the node, its fields, and whether it was allowed."""

    sent: float
    answered: float
    node: int
    fields: tuple
    allowed: bool


class Load:
    """Threads that send each node each of some requests, each `PER_SECOND` times a second, until stopped."""

    PER_SECOND = 300

    def __init__(self, fleet, *subjects):
        """Each subject is the fields of a `TG.CHECK`, or a list of them to be sent in turn."""
        self.exchanges = []
        # How late this machine woke the threads; the server is not to blame for that.
        self.worst_stall = 0.0
        # How long threads of the servers were ready to run and waited for a processor, in seconds.
        self.fleet = fleet
        self.waited_for_cpu = 0.0
        self.problems = []
        self.ended = threading.Event()
        self.threads = []
        for number, node in enumerate(fleet.nodes):
            for fields in subjects:
                turns = fields if isinstance(fields, list) else [fields]
                self.threads.append(threading.Thread(target=self.run, args=(number, node, turns), daemon=True))

    def run(self, number, node, turns):
        try:
            connection = node.resp_connection()
            self.send_until_stopped(number, connection, turns)
        except Exception as error:  # noqa: BLE001: a thread cannot fail a test by itself
            self.problems.append((node, error))

    def send_until_stopped(self, number, connection, turns):
        due = time.monotonic()
        turn = 0
        while not self.ended.is_set():
            fields = turns[turn % len(turns)]
            turn += 1
            sent = time.monotonic()
            allowed = connection.check(*fields)
            answered = time.monotonic()
            self.exchanges.append(Exchange(sent, answered, number, fields, allowed))
            # A late thread does not catch up: the load must not rise after a stall.
            due = max(due + 1 / self.PER_SECOND, answered)
            time.sleep(max(0.0, due - time.monotonic()))
            self.worst_stall = max(self.worst_stall, time.monotonic() - due)
        connection.close()

    def __enter__(self):
        self.before = [cpu_waits(node) for node in self.fleet.nodes]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        after = [cpu_waits(node) for node in self.fleet.nodes]
        self.waited_for_cpu = max(
            sum(waited - before.get(thread, 0.0) for thread, waited in after.items())
            for before, after in zip(self.before, after, strict=True)
        )

    def of(self, fields, since=0.0):
        """The exchanges with these fields, in the order in which they were sent."""
        return sorted(one for one in self.exchanges if one.fields == fields and one.sent >= since)

    def admitted(self, fields, since=0.0):
        return [one for one in self.of(fields, since) if one.allowed]

    def wait_until_overload(self, fields, capacity, rate, seconds=30.0):
        """Waits until these requests are clearly more than one bucket admits. A busy machine sends them slowly."""
        ends = time.monotonic() + seconds
        while True:
            exchanges = self.of(fields)
            possible = admitted_by_one_bucket(exchanges, capacity, rate)
            if len(exchanges) > 1.2 * possible:
                return
            assert time.monotonic() < ends, f"{len(exchanges)} requests are not an overload, of which {possible} can be admitted"
            time.sleep(0.3)

    def wait_until_rate_is_used(self, fields, rate, since, seconds=10.0):
        """Waits until at least half of the rate was admitted within one second that began after `since`. Calls miss their
        deadlines while this machine is busy with something else, so it need not be the first second."""
        while True:
            now = time.monotonic()
            lately = [one for one in self.of(fields, since=now - 1) if one.answered <= now]
            count = sum(one.allowed for one in lately)
            if now - 1 >= since and count >= rate / 2:
                return
            assert now < since + seconds, f"{count} of {len(lately)} requests admitted in a second: too few for {rate}/s"
            time.sleep(0.1)

    def check_waits(self, deadline_s):
        """No request waited much longer than the deadline; stalls of this machine are not counted."""
        # Connections to a node that was killed may fail.
        problems = [
            error
            for node, error in self.problems
            if node.running.poll() is None or not is_connection_error(error)
        ]
        assert not problems, problems
        waits = sorted(one.answered - one.sent for one in self.exchanges)
        assert len(waits) > 100, f"only {len(waits)} requests: that is too few to judge"
        most, nearly_all = waits[-1], waits[len(waits) * 99 // 100]
        slack = self.worst_stall + self.waited_for_cpu
        assert nearly_all <= deadline_s + 0.15 + slack, f"p99 {nearly_all:.3f} s, with stalls of {slack:.3f} s"
        assert most <= deadline_s + 0.48 + slack, f"the longest took {most:.3f} s, with stalls of {slack:.3f} s"


def cpu_waits(node):
    """How long each thread of a server has waited for a processor, in seconds; nothing if the system does not tell."""
    waits = {}
    for thread in pathlib.Path(f"/proc/{node.running.pid}/task").glob("*/schedstat"):
        try:
            _running, waited, _turns = thread.read_text().split()
        except (OSError, ValueError):
            continue
        waits[thread.parent.name] = int(waited) / 1e9
    return waits


def is_connection_error(error):
    return isinstance(error, OSError)


def check_envelope(admitted, capacity, rate, extra=0.0):
    """No interval has more admitted requests than the capacity, plus rate times its length, plus `extra`."""
    starts = range(0, len(admitted), max(1, len(admitted) // 400))
    for start in starts:
        since = admitted[start].sent
        answered = sorted(one.answered for one in admitted[start:])
        for count, instant in enumerate(answered, 1):
            most = capacity + rate * (instant - since) + extra
            assert count <= most, f"{count} admitted within {instant - since:.3f} s; {most:.1f} are allowed"


def admitted_by_one_bucket(exchanges, capacity, rate):
    """How many of these requests one bucket admits, if it gets each when it was answered."""
    tokens, last, admitted = capacity, 0.0, 0
    for answered in sorted(one.answered for one in exchanges):
        tokens, last = min(capacity, tokens + rate * (answered - last)), answered
        if tokens >= 1:
            tokens, admitted = tokens - 1, admitted + 1
    return admitted


def check_rate_is_used(exchanges, capacity, rate, at_least=0.85):
    """Of requests that are an overload, at least this fraction of what one bucket admits was admitted. While this machine
    stalls nobody asks, and the bucket overflows: that is nobody's fault."""
    possible = admitted_by_one_bucket(exchanges, capacity, rate)
    count = sum(one.allowed for one in exchanges)
    assert len(exchanges) > possible, f"{len(exchanges)} requests are not an overload"
    assert count >= at_least * possible, f"{count} of {possible} admitted"
