"""Malicious or broken clients: the server stays up, serves other clients, and its memory stays bounded."""

import json
import resource
import socket
import struct
import time

from harness import Tidegate, http_request

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1000000 }, burst: { capacity: 1000000 } }
"""

# The timeout of sockets: more than any test needs.
PATIENCE_S = 20


def raise_file_limit():
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connect(address):
    connection = socket.create_connection(address, timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_all(connection):
    """Reads until the server closes the connection."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def read_until(connection, ending):
    received = b""
    while not received.endswith(ending):
        chunk = connection.recv(65536)
        assert chunk, f"closed after {received[-200:]!r}"
        received += chunk
    return received


def check_others_are_served(server):
    """Another client gets a response soon."""
    began = time.monotonic()
    status, _headers, body = http_request(server.http, "POST", "/v1/check", json.dumps({"user": "other"}))
    assert (status, json.loads(body)["allowed"]) == (200, True)
    assert time.monotonic() - began < 2


def test_ten_thousand_idle_connections():
    raise_file_limit()
    with Tidegate(POLICY) as server:
        before = server.resident_bytes()
        idle = []
        for listener in (server.resp, server.http, server.grpc):
            for _ in range(3400):
                idle.append(connect(listener))
        assert len(idle) > 10_000
        check_others_are_served(server)
        grown = server.resident_bytes() - before
        assert grown < 100 * 1024 * 1024, f"{grown / len(idle):.0f} bytes a connection"
        # On HTTP and gRPC the first byte must come soon; on RESP a pooled connection may stay idle.
        for silent in (idle[-1], idle[3400]):
            assert silent.recv(100) == b"", "closed after five seconds without a byte"
        idle[0].sendall(b"PING\r\n")
        assert idle[0].recv(100) == b"+PONG\r\n"
        for connection in idle:
            connection.close()
        check_others_are_served(server)


def test_a_pipeline_of_100_000_commands():
    command = b"*5\r\n$11\r\nCL.THROTTLE\r\n$4\r\nuser\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n"
    with Tidegate(POLICY) as server:
        with connect(server.resp) as connection:
            connection.setblocking(False)
            before, to_send, received = server.resident_bytes(), command * 100_000, 0
            # Replies are read only when nothing more can be sent: the server must not buffer unread replies.
            while to_send:
                try:
                    to_send = to_send[connection.send(to_send[: 1 << 20]) :]
                except BlockingIOError:
                    grown = server.resident_bytes() - before
                    assert grown < 8 * 1024 * 1024, f"{grown} bytes for one connection"
                    try:
                        received += connection.recv(1 << 20).count(b"*5\r\n")
                    except BlockingIOError:
                        time.sleep(0.001)
            connection.settimeout(PATIENCE_S)
            while received < 100_000:
                chunk = connection.recv(1 << 20)
                assert chunk, f"closed after {received} answers"
                received += chunk.count(b"*5\r\n")
        check_others_are_served(server)


def test_slow_heads_are_cut_off():
    with Tidegate(POLICY) as server:
        slow = [connect(server.http) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\n")
        began = time.monotonic()
        # A byte now and then does not extend the timeout.
        while time.monotonic() - began < 4:
            for connection in slow:
                connection.sendall(b"X")
            check_others_are_served(server)
            time.sleep(0.5)
        for connection in slow:
            read_all(connection)
        assert time.monotonic() - began < 12, "a head may take five seconds"
        check_others_are_served(server)


def test_slow_bodies_are_cut_off():
    with Tidegate(POLICY) as server:
        with connect(server.http) as connection:
            head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
            connection.sendall(head)
            began = time.monotonic()
            received = read_all(connection)
            assert b" 408 " in received.split(b"\r\n")[0], received
            assert time.monotonic() - began < 12
        check_others_are_served(server)


def test_half_open_connections():
    with Tidegate(POLICY) as server:
        for listener in (server.http, server.grpc, server.resp):
            for data in (b"", b"\x00", b"PRI * HTTP/2.0\r\n", b"*3\r\n$5\r\n", b"\xff" * 100):
                connection = connect(listener)
                connection.sendall(data)
                try:
                    connection.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # the server has closed it already
                read_all(connection)
                connection.close()
        check_others_are_served(server)


def test_header_floods():
    with Tidegate(POLICY) as server:
        many = b"".join(b"X-%d: y\r\n" % number for number in range(100))
        refusals = 0
        for flood in [many, b"X: " + b"y" * 40_000 + b"\r\n", many * 50, b"X: " + b"y" * 200_000 + b"\r\n"] * 2:
            with connect(server.http) as connection:
                try:
                    connection.sendall(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\n" + flood + b"\r\n")
                except (BrokenPipeError, ConnectionResetError):
                    pass
                refusals += b" 431 " in read_all(connection).split(b"\r\n")[0]
        # A client that is still sending may lose the response to a TCP reset, but not every time.
        assert refusals >= 3, f"{refusals} of 8 got a 431"
        check_others_are_served(server)


def test_oversized_bodies():
    with Tidegate(POLICY) as server:
        too_large = json.dumps({"user": "x" * 70_000})
        status, headers, body = http_request(server.http, "POST", "/v1/check", too_large)
        assert status == 413 and headers["content-type"] == "application/problem+json", (status, body)
        with connect(server.http) as connection:
            connection.sendall(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(100):
                    connection.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass
            read_all(connection)
        refusals = 0
        for _ in range(5):
            with connect(server.http) as connection:
                chunks = b"1000\r\n" + b" " * 4096 + b"\r\n"
                head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                connection.sendall(head + chunks * 17)
                refusals += b" 413 " in read_all(connection).split(b"\r\n")[0]
        # A client that is still sending may lose the response to a TCP reset, but not every time.
        assert refusals > 0
        check_others_are_served(server)


def test_requests_that_two_servers_would_read_differently():
    with Tidegate(POLICY) as server:
        body = b'{"user":"1"}'
        for head in (
            b"Content-Length: 12\r\nTransfer-Encoding: chunked\r\n",
            b"Content-Length: 12\r\nContent-Length: 13\r\n",
            b"Content-Length: +12\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Content-Length : 12\r\n",
            b"X: a\r\n folded\r\nContent-Length: 12\r\n",
        ):
            with connect(server.http) as connection:
                connection.sendall(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n" + body)
                connection.shutdown(socket.SHUT_WR)
                received = read_all(connection)
                assert not received.startswith(b"HTTP/1.1 200"), (head, received)
        check_others_are_served(server)


def test_costs_and_keys_that_make_no_sense():
    with Tidegate(POLICY) as server:
        for cost in ("NaN", "-1", "1e400", "18446744073709551616", "0.5", '"1"', "true", "[]", "1e2"):
            status, _headers, body = http_request(
                server.http, "POST", "/v1/check", f'{{"user":"1","cost":{cost}}}'
            )
            assert status == 400 and "cost" in body, (cost, status, body)
        for key in ("\\u0000", "\\r\\nX-Injected: 1", "\\u2028", "x" * 4000, "\\ud83d\\ude00"):
            name = key[:200]
            for request in (f'{{"user":"{key}"}}', f'{{"path":"{key}"}}', f'{{"headers":{{"{name}":"{key}"}}}}'):
                status, headers, _body = http_request(server.http, "POST", "/v1/check", request)
                assert status == 200 and "x-injected" not in headers, (request[:100], status)
        status, _headers, _body = http_request(server.http, "POST", "/v1/check", '{"user":"\\ud83d"}')
        assert status == 400, "half a surrogate pair is invalid"
        status, _headers, page = http_request(server.admin, "GET", "/metrics", None)
        assert status == 200 and "Injected" not in page
        with connect(server.resp) as connection:
            for command in (
                b"CL.THROTTLE k 15 30 60 -1",
                b"CL.THROTTLE k 99999999999999999999 30 60",
                b"CL.THROTTLE k 15 0 60",
                b"CL.THROTTLE k 15 30 0",
                b"CL.THROTTLE k NaN 30 60",
                b'CL.THROTTLE "" 15 30 60',
            ):
                connection.sendall(command + b"\r\n")
                received = read_until(connection, b"\r\n")
                assert received.startswith(b"-ERR "), (command, received)
            connection.sendall(b'CL.THROTTLE "a\\x00b\\r\\n" 15 30 60\r\n')
            assert read_until(connection, b"\r\n:2\r\n").startswith(b"*5\r\n:0\r\n:16\r\n:15\r\n")
        check_others_are_served(server)


def test_limits_that_never_come_again():
    """Each request has other numbers: memory stays bounded, and new numbers keep working."""
    with Tidegate(POLICY) as server:

        def throttle(first, count):
            """Sends `count` different limits, each full again at once; returns how many were decided."""
            decided = 0
            with connect(server.resp) as connection:
                for start in range(first, first + count, 500):
                    block = range(start, start + 500)
                    line = b"CL.THROTTLE k %d 1000000000 1\r\n"
                    connection.sendall(b"".join(line % number for number in block))
                    received = b""
                    while received.count(b"*5\r\n") + received.count(b"-ERR") < 500:
                        chunk = connection.recv(1 << 20)
                        assert chunk
                        received += chunk
                    decided += received.count(b"*5\r\n")
            return decided

        wave, before = 40_000, None
        for number in range(5):
            assert throttle(number * wave, wave) == wave, f"wave {number}"
            # A set of numbers counts as in use for up to two seconds after its last use.
            time.sleep(2.5)
            if number == 1:
                before = server.resident_bytes()
        grown = server.resident_bytes() - before
        assert grown < 64 * 1024 * 1024, f"{grown} bytes"
        check_others_are_served(server)


# Decisions of some kilobytes, so that the response to a request of three bytes is a thousand times as large.
MANY_LIMITS = "version: 1\nlimits:\n" + "".join(
    f"  - {{ name: a-limit-with-a-name-as-operators-write-them-{number}, key: [], sustained: {{ rate: 1000000 }} }}\n"
    for number in range(30)
)
BATCH = b'{"requests":[' + b",".join([b"{}"] * 1000) + b"]}"
SMALL_BATCH = b'{"requests":[' + b",".join([b"{}"] * 600) + b"]}"
# The most memory that the whole server may use, whatever clients leave unread.
RESIDENT_MAX = 96 * 1000 * 1000
# A client that reads nothing is disconnected after ten seconds, one with stalled HTTP/2 streams after fifteen.
CUT_OFF_S = 25


def post(path, body):
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (path, len(body), body)


def unreading_connection(address):
    """A connection with a tiny receive buffer, from which the test does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(address)
    connection.setblocking(False)
    return connection


def send_some(connection, data):
    """Sends as much as the socket accepts at once; returns how much that was."""
    try:
        return connection.send(data)
    except OSError:
        return 0


def check_memory_stays_bounded(server, connections, nudge):
    """While clients read nothing and send more, memory stays within the bound, and the server disconnects them."""
    began, peak = time.monotonic(), 0
    open_connections = list(connections)
    while open_connections:
        peak = max(peak, server.resident_bytes())
        assert peak < RESIDENT_MAX, f"{peak / 1e6:.0f} MB resident"
        waited = time.monotonic() - began
        assert waited < CUT_OFF_S, f"{len(open_connections)} are still open after {waited:.0f} s"
        status, _headers, body = http_request(server.http, "POST", "/v1/check", "{}")
        assert status == 200, (status, body)
        open_connections = [connection for connection in open_connections if nudge(connection)]
        time.sleep(0.5)
    for connection in connections:
        connection.close()


def keep_sending(data):
    """Returns a function that sends these bytes, and returns False once the connection is closed."""

    def nudge(connection):
        try:
            connection.send(data)
        except BlockingIOError:
            pass  # the server does not read; the connection is still open
        except OSError:
            return False
        return True

    return nudge


def test_batches_that_nobody_takes():
    with Tidegate(MANY_LIMITS) as server:
        connections = [unreading_connection(server.http) for _ in range(64)]
        for connection in connections:
            send_some(connection, post(b"/v1/check/batch", BATCH))
        check_memory_stays_bounded(server, connections, keep_sending(post(b"/v1/check", b"{}")))


def test_pipelines_that_nobody_takes():
    check = post(b"/v1/check", b"{}")
    forward = b"GET /v1/forward-auth HTTP/1.1\r\nHost: localhost\r\n\r\n"
    # Small responses need more requests to fill the buffers.
    for listener, one, count in (("http", check, 64), ("http", forward, 16), ("resp", b"TG.CHECK user 1\r\n", 16)):
        with Tidegate(MANY_LIMITS) as server:
            connections = [unreading_connection(getattr(server, listener)) for _ in range(count)]
            for connection in connections:
                send_some(connection, one * 1000)
            check_memory_stays_bounded(server, connections, keep_sending(one * 1000))


def frame(kind, flags, stream, payload):
    """An HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """An HPACK literal header field, without compression."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


WINDOW_OPENED = b"\x00\x00\x04\x08\x00" + b"\x00" * 4


def h2_connect(address, window):
    """A connection with this initial flow control window for each stream."""
    connection = connect(address)
    settings = frame(4, 0, 0, struct.pack(">HI", 4, window))
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
    # Wait until the server has enlarged the window of the connection.
    received = b""
    while WINDOW_OPENED not in received:
        chunk = connection.recv(65536)
        assert chunk, received
        received += chunk
    return connection


def h2_post(stream, path, body, kind=b"application/json"):
    head = b"\x83\x86" + field(b":path", path) + field(b":authority", b"localhost") + field(b"content-type", kind)
    return frame(1, 4, stream, head) + frame(0, 1, stream, body)


def drip(connection):
    """Opens the window of every stream by one byte, which does not count as progress, and sends a PING."""
    connection.setblocking(False)
    windows = b"".join(frame(8, 0, 2 * number + 1, struct.pack(">I", 1)) for number in range(128))
    try:
        connection.sendall(windows + frame(6, 0, 0, b"tidegate"))
        while True:
            if not connection.recv(1 << 20):
                return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_http2_streams_that_nobody_lets_on():
    for window in (0, 1):
        with Tidegate(MANY_LIMITS) as server:
            connections = [h2_connect(server.http, window) for _ in range(2)]
            for connection in connections:
                for number in range(128):
                    # All of them together fit into the window of the connection.
                    connection.sendall(h2_post(2 * number + 1, b"/v1/check/batch", SMALL_BATCH))
            check_memory_stays_bounded(server, connections, drip)


def test_grpc_streams_that_nobody_lets_on():
    # Requests the file with this symbol and its dependencies (field 4): a response of some kilobytes.
    symbol = b"envoy.service.ratelimit.v3.RateLimitService"
    body = struct.pack(">BI", 0, len(symbol) + 2) + bytes([0x22, len(symbol)]) + symbol
    path = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    with Tidegate(MANY_LIMITS) as server:
        connections = [h2_connect(server.grpc, 0) for _ in range(4)]
        for connection in connections:
            for number in range(128):
                connection.sendall(h2_post(2 * number + 1, path, body, b"application/grpc"))
        check_memory_stays_bounded(server, connections, drip)


def test_a_client_that_reads_slowly_gets_its_whole_batch():
    with Tidegate(MANY_LIMITS) as server:
        connection = connect(server.http)
        connection.sendall(post(b"/v1/check/batch", BATCH).replace(b"\r\nHost", b"\r\nConnection: close\r\nHost"))
        received = b""
        while chunk := connection.recv(20_000):
            received += chunk
            time.sleep(0.005)
        assert received.endswith(b"]}\r\n0\r\n\r\n"), received[-100:]
        assert received.count(b'"allowed":true,"reason"') == 1000


def test_bodies_of_one_address_leave_room_for_others():
    unfinished = b"POST /v1/check/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{" + b" " * 600_000

    def from_address(server, address):
        connection = socket.create_connection(server.http, timeout=PATIENCE_S, source_address=(address, 0))
        connection.sendall(unfinished)
        return connection

    with Tidegate(POLICY) as server:
        many = [from_address(server, "127.0.0.2") for _ in range(110)]
        one = from_address(server, "127.0.0.3")
        # Requests over the budget are refused at once; the others time out waiting for the rest of the body.
        assert b" 408 " in read_all(one).split(b"\r\n")[0]
        decision = [read_all(connection).split(b"\r\n")[0] for connection in many]
        assert any(b" 503 " in line for line in decision) and any(b" 408 " in line for line in decision), set(decision)
        check_others_are_served(server)


def test_abuse_of_http2_writes_few_lines():
    resets = b"".join(
        frame(1, 4, stream, b"\x83\x86" + field(b":path", b"/v1/check") + field(b":authority", b"localhost"))
        + frame(3, 0, stream, struct.pack(">I", 8))
        for stream in range(1, 401, 2)
    )
    with Tidegate(POLICY) as server:
        before, calmed = server.output().count("\n"), 0
        began = time.monotonic()
        for number in range(300):
            is_grpc = number % 2 == 1
            with h2_connect((server.http, server.grpc)[is_grpc], 65_535) as connection:
                try:
                    connection.sendall(resets)
                    if is_grpc:
                        # Proxies reset many calls, and here a call that is reset at once costs next to nothing: the
                        # connection goes on.
                        connection.sendall(frame(6, 0, 0, b"go on..."))
                        seen = b""
                        while b"go on..." not in seen:
                            seen += connection.recv(65536) or b"go on... was not answered"
                        assert b"not answered" not in seen
                        continue
                except OSError:
                    pass
                calmed += b"too_many_resets" in read_all(connection)
        assert calmed > 100, f"{calmed} of 150 got GOAWAY too_many_resets"
        lines = server.output().count("\n") - before
        assert 0 < lines <= 10 + 2 * (time.monotonic() - began), f"{lines} lines"
        check_others_are_served(server)
