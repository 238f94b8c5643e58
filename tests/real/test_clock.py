"""The server while somebody sets the wall clock: libfaketime changes the wall clock that it sees, but not the monotonic
clock."""

import base64
import datetime
import email.utils
import hashlib
import hmac
import json
import pathlib
import time

from harness import Tidegate, http_request, wait_for

DAY = 86_400
SECRET = "a secret that only the issuer and the server know"

LIMITS = """
  - { name: signed-in, group: caller, match: { path: /who }, key: [user], sustained: { rate: 77, window: hour } }
  - { name: anonymous, group: caller, match: { path: /who }, key: [], sustained: { rate: 33, window: hour } }
  - { name: window, match: { path: /window }, key: [], algorithm: fixed_window, sustained: { rate: 1, window: hour } }
  - { name: bucket, match: { path: /bucket }, key: [], sustained: { rate: 1, window: hour }, burst: { capacity: 1 } }
"""


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def token(**claims):
    part = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")
    text = b".".join(part(json.dumps(each).encode()) for each in ({"alg": "HS256", "typ": "JWT"}, claims))
    return (text + b"." + part(hmac.new(SECRET.encode(), text, hashlib.sha256).digest())).decode()


class Settable(Tidegate):
    """A server whose wall clock can be set."""

    FILE = "faketime.rc"

    def __init__(self, policy, settings):
        libraries = list(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        assert libraries, "libfaketime is missing: ./test real installs it"
        environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": self.FILE,
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        super().__init__(policy, settings=settings, environment=environment, files={self.FILE: "+0\n"})

    def set_clock(self, ahead):
        """Sets the clock `ahead` seconds ahead of the real one, and waits until responses have that date."""
        new = self.path / "new.rc"
        new.write_text(f"{ahead:+d}\n")
        new.rename(self.path / self.FILE)
        wait_for("the date", lambda: abs(self.date() - time.time() - ahead) < 5)

    def date(self):
        """The date of a response by the express lane, which writes that header itself."""
        body = json.dumps({"user": "date"})
        _status, headers, _body = http_request(self.http, "POST", "/v1/check", body, {"Content-Type": "application/json"})
        return email.utils.parsedate_to_datetime(headers["date"]).timestamp()

    def forward_auth(self, path, bearer=None):
        headers = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": path}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        status, headers, _body = http_request(self.http, "GET", "/v1/forward-auth", None, headers)
        return status, headers

    def knows(self, bearer):
        status, headers = self.forward_auth("/who", bearer)
        return status == 204 and headers["x-ratelimit-limit"] == "77"

    def metric(self, name):
        page = http_request(self.admin, "GET", "/metrics")[2]
        return float(next(line.split()[1] for line in page.splitlines() if line.startswith(f"{name} ")))


def test_what_has_a_date_follows_the_wall_clock_and_buckets_do_not():
    start = int(time.time())
    policy = (
        f'version: 1\nblock: [{{ path: /blocked, until: "{iso(start + DAY // 2)}" }}]\n'
        f'allow: [{{ path: /free, until: "{iso(start + DAY // 2)}" }}]\nlimits:{LIMITS}'
        "  - { name: not-free, match: { path: /free }, key: [], sustained: { rate: 9, window: hour } }\n"
    )
    settings = f"jwt: {{ key: '{SECRET}', algorithm: HS256 }}\n"
    today = token(sub="42", exp=start + DAY // 2)
    tomorrow = token(sub="42", nbf=start + DAY // 2, exp=start + 2 * DAY)
    with Settable(policy, settings) as server:
        assert abs(server.metric("tidegate_clock_offset_seconds")) < 1
        assert (server.knows(today), server.knows(tomorrow)) == (True, False)
        status, headers = server.forward_auth("/blocked")
        assert status != 204 and DAY // 2 - 60 < int(headers["retry-after"]) <= DAY // 2, (status, headers)
        assert "x-ratelimit-limit" not in server.forward_auth("/free")[1], "allowed, so no limit applies"
        assert [server.forward_auth(path)[0] for path in ("/window", "/window", "/bucket", "/bucket")] == [204, 429, 204, 429]

        server.set_clock(DAY)
        assert (server.knows(today), server.knows(tomorrow)) == (False, True), "one has expired, the other is valid now"
        assert server.forward_auth("/blocked")[0] == 204, "the block has ended"
        assert server.forward_auth("/free")[1]["x-ratelimit-limit"] == "9"
        status, headers = server.forward_auth("/window")
        assert status == 204, "another hour has begun"
        # A window ends at a full hour of the changed clock, and the header has that instant.
        assert int(headers["x-ratelimit-reset"]) % 3600 == 0 and 0 < int(headers["x-ratelimit-reset"]) - start - DAY <= 3700, headers
        status, headers = server.forward_auth("/bucket")
        assert (status, headers["retry-after"] in ("3600", "3599", "3598", "3597")) == (429, True), "no hour has passed"
        assert abs(server.metric("tidegate_clock_offset_seconds") - DAY) < 5
        wait_for("a count", lambda: server.metric("tidegate_clock_moves_total") >= 1)
        wait_for("a warning", lambda: "the wall clock was set" in server.output())

        server.set_clock(0)
        assert (server.knows(today), server.knows(tomorrow)) == (True, False)
        assert server.forward_auth("/blocked")[0] != 204 and "x-ratelimit-limit" not in server.forward_auth("/free")[1]
        status, headers = server.forward_auth("/window")
        assert status == 429 and int(headers["retry-after"]) > DAY - 3600, "the window does not start again"
        assert server.forward_auth("/bucket")[0] == 429
        assert abs(server.metric("tidegate_clock_offset_seconds")) < 5
        wait_for("another", lambda: server.metric("tidegate_clock_moves_total") >= 2)
