"""Many requests from many threads, and whether what was admitted is within what was promised."""

import threading
import time
from typing import NamedTuple


class Asked(NamedTuple):
    """One request: when it was sent and answered, to which node, about what, and what came of it."""

    sent: float
    answered: float
    node: int
    fields: tuple
    allowed: bool


class Load:
    """Threads that ask each node about each of some things, each `PER_SECOND` times a second, until it is stopped."""

    PER_SECOND = 300

    def __init__(self, fleet, *about):
        """`about` are fields of `TG.CHECK`, or lists of them to be asked about in turn."""
        self.asked = []
        # How late this machine woke the threads up: nobody is to blame for that.
        self.worst_stall = 0.0
        self.troubles = []
        self.ended = threading.Event()
        self.threads = []
        for number, node in enumerate(fleet.nodes):
            for fields in about:
                turns = fields if isinstance(fields, list) else [fields]
                self.threads.append(threading.Thread(target=self.run, args=(number, node, turns), daemon=True))

    def run(self, number, node, turns):
        try:
            connection = node.resp_connection()
            self.ask_until_the_end(number, connection, turns)
        except Exception as error:  # noqa: BLE001: a thread cannot fail a test by itself
            self.troubles.append((node, error))

    def ask_until_the_end(self, number, connection, turns):
        due = time.monotonic()
        turn = 0
        while not self.ended.is_set():
            fields = turns[turn % len(turns)]
            turn += 1
            sent = time.monotonic()
            allowed = connection.check(*fields)
            answered = time.monotonic()
            self.asked.append(Asked(sent, answered, number, fields, allowed))
            # Who is late does not catch up: load that is offered is not owed.
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
        """What was asked about something, in the order in which it was sent."""
        return sorted(asked for asked in self.asked if asked.fields == fields and asked.sent >= since)

    def admitted(self, fields, since=0.0):
        return [asked for asked in self.of(fields, since) if asked.allowed]

    def check_waits(self, deadline_s):
        """Nobody waited longer than the deadline and a little; this machine's own stalls are not counted."""
        # A node that was killed answers nobody.
        troubles = [error for node, error in self.troubles if node.running.poll() is None or not is_lost(error)]
        assert not troubles, troubles
        waits = sorted(asked.answered - asked.sent for asked in self.asked)
        assert len(waits) > 100, f"only {len(waits)} requests: nothing was tried"
        most, nearly_all = waits[-1], waits[len(waits) * 99 // 100]
        slack = self.worst_stall
        assert nearly_all <= deadline_s + 0.15 + slack, f"p99 {nearly_all:.3f} s, with stalls of {slack:.3f} s"
        assert most <= deadline_s + 0.48 + slack, f"the longest took {most:.3f} s, with stalls of {slack:.3f} s"


def is_lost(error):
    return isinstance(error, OSError)


def check_envelope(admitted, capacity, rate, extra=0.0):
    """In no stretch of time was more admitted than the capacity, what the rate gives in that time, and `extra`."""
    starts = range(0, len(admitted), max(1, len(admitted) // 400))
    for start in starts:
        since = admitted[start].sent
        answered = sorted(asked.answered for asked in admitted[start:])
        for count, instant in enumerate(answered, 1):
            most = capacity + rate * (instant - since) + extra
            assert count <= most, f"{count} admitted within {instant - since:.3f} s; {most:.1f} are allowed"


def check_all_used(asked, rate, at_least=0.85):
    """Under overload, so much of what the rate gives was admitted."""
    lasted = asked[-1].answered - asked[0].sent
    count = sum(one.allowed for one in asked)
    assert len(asked) > 1.2 * rate * lasted, f"{len(asked)} requests in {lasted:.2f} s are no overload"
    assert count >= at_least * rate * lasted, f"{count} of {rate * lasted:.0f} admitted"
