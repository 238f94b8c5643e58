"""A TCP proxy that misbehaves on command: `python3 faulty_proxy.py PORT` prints the port it listens on.

It is a separate process, so that the load of the tests does not add to its delays. It reads orders from standard input,
one per line, and answers each with a line: `delay SECONDS` (in each direction), `hold` (no data passes, connections stay
open) and `pass` (no data is held or delayed).
"""

import asyncio
import sys

CHUNK = 65536


class Faults:
    """The faults that are active now."""

    def __init__(self):
        self.delay = 0.0
        self.open = asyncio.Event()
        self.open.set()

    def apply(self, line):
        match line.split():
            case ["delay", seconds]:
                self.delay = float(seconds)
            case ["hold"]:
                self.open.clear()
            case ["pass"]:
                self.delay = 0.0
                self.open.set()
            case _:
                raise ValueError(f"no such order: {line!r}")


async def forward(faults, source, target):
    """Forwards bytes in order, each chunk after the delay. The delay does not reduce throughput: later chunks do not
    wait for earlier ones to arrive."""
    loop = asyncio.get_running_loop()
    under_way = asyncio.Queue()

    async def deliver():
        while (item := await under_way.get()) is not None:
            due, chunk = item
            await asyncio.sleep(max(0.0, due - loop.time()))
            await faults.open.wait()
            target.write(chunk)
            await target.drain()
        target.close()

    delivering = asyncio.create_task(deliver())
    try:
        while chunk := await source.read(CHUNK):
            under_way.put_nowait((loop.time() + faults.delay, chunk))
    except OSError:
        pass
    under_way.put_nowait(None)
    try:
        await delivering
    except OSError:
        target.close()


async def main(port):
    faults = Faults()

    async def connected(reader, writer):
        await faults.open.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(forward(faults, reader, far_writer), forward(faults, far_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    # Ends when the test that controls it closes standard input.
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        faults.apply(line)
        print("done", flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
