"""Sends many requests from many threads, and checks that the admitted ones are within the promised bound."""

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
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def of(self, fields, since=0.0):
        """The exchanges with these fields, in the order in which they were sent."""
        return sorted(one for one in self.exchanges if one.fields == fields and one.sent >= since)

    def admitted(self, fields, since=0.0):
        return [one for one in self.of(fields, since) if one.allowed]

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
        slack = self.worst_stall
        assert nearly_all <= deadline_s + 0.15 + slack, f"p99 {nearly_all:.3f} s, with stalls of {slack:.3f} s"
        assert most <= deadline_s + 0.48 + slack, f"the longest took {most:.3f} s, with stalls of {slack:.3f} s"


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


def check_rate_is_used(exchanges, rate, at_least=0.85):
    """Under overload, at least this fraction of what the rate allows was admitted."""
    lasted = exchanges[-1].answered - exchanges[0].sent
    count = sum(one.allowed for one in exchanges)
    assert len(exchanges) > 1.2 * rate * lasted, f"{len(exchanges)} requests in {lasted:.2f} s are not an overload"
    assert count >= at_least * rate * lasted, f"{count} of {rate * lasted:.0f} admitted"
