"""The upstream of the storm: it does to each request what the request asks for, and keeps a record that
trusts nobody: storm_upstream.py RECORD.

It prints its port, serves until its input ends, and then writes the record as JSON. A request is inside from
its complete head until the last of its reply is on its way, it is broken off here, or the gateway has closed
the connection. The gateway may give a permit to the next one as soon as it has closed a connection, before
this program has looked at it, even before it has seen the request; so at each arrival the kernel is asked
which connections are closed, that of the arrival included."""
import asyncio
import collections
import json
import logging
import random
import re
import select
import socket
import struct
import sys
import time
import urllib.parse

LARGE = b'0123456789abcdef' * 4096 * 96  # 6 MiB: more than the kernel takes for one connection at once
CLOSED = select.POLLERR | select.POLLHUP | select.POLLRDHUP
GRACE = 0.05  # for the kernel to carry a close from one core to another
ENDING_S = 10  # at most, until the connections of the last ones have ended

inside = collections.defaultdict(set)
arrivals = []
counts = collections.Counter()
wrong = []
rng = random.Random(1)


def fill(name, length):
    """The body that belongs to a name."""
    return ((name + '.') * (length // (len(name) + 1) + 1)).encode()[:length]


def closed(visits):
    """Those whose other side has closed, as the kernel knows it."""
    poll = select.poll()
    by_fd = {}
    for visit in visits:
        if visit.fd >= 0:
            poll.register(visit.fd, select.POLLRDHUP)
            by_fd[visit.fd] = visit
    return {by_fd[fd] for fd, what in poll.poll(0) if what & CLOSED}


class Visit(asyncio.Protocol):
    """One connection, with at most one request at a time."""

    def connection_made(self, transport):
        self.transport = transport
        self.fd = transport.get_extra_info('socket').fileno()
        self.data = bytearray()
        self.busy = False        # a request has come, and its reply has not been sent
        self.key = None          # of the request that is inside
        self.served = 0
        self.paused = False
        self.more = None
        self.body_left = None    # None: chunks
        self.body = bytearray()
        self.bodied = False
        self.gone = False
        counts['connections'] += 1

    # ---- the record

    def enter(self, query):
        self.key = self.path_key
        others = inside[self.key]
        others.add(self)
        really = others - closed(others)
        now = time.monotonic()
        record = {'id': query['id'], 'key': self.key, 'sent': float(query['sent']), 'now': now,
                  'count': len(really), 'later': len(really), 'dead': self not in really,
                  'reused': self.served > 0, 'method': self.method, 'fate': self.fate}
        arrivals.append(record)
        for visit in really - {self}:
            visit.watchers.append((record, now))

    watchers = ()

    def leave(self, gone=False):
        if self.key is None:
            return
        inside[self.key].discard(self)
        self.key = None
        if gone:
            counts['gone'] += 1
            now = time.monotonic()
            for record, then in self.watchers:
                if now - then < GRACE:
                    record['later'] -= 1
        self.watchers = ()

    # ---- what comes

    def data_received(self, data):
        self.data += data
        if self.busy and self.bodied:
            wrong.append(f'bytes before the reply: {bytes(self.data[:100])!r}')
            self.transport.abort()
            return
        if not self.busy and b'\r\n\r\n' in self.data:
            self.begin()
        if self.busy and not self.bodied:
            self.read_body()

    def begin(self):
        head, _, rest = self.data.partition(b'\r\n\r\n')
        self.data = rest
        line = re.match(rb'(\w+) /functions/(\w+)\?(\S+) HTTP/1\.([01])\r\n', head)
        if line is None:
            wrong.append(f'head {bytes(head[:300])!r}')
            self.transport.abort()
            return
        query = dict(urllib.parse.parse_qsl(line[3].decode()))
        self.method = line[1].decode()
        self.path_key = line[2].decode()
        self.fate = query['fate']
        self.id = query['id']
        self.length = int(query.get('length', 100))
        self.expected = fill(self.id, int(query.get('body', 0)))
        lower = bytes(head).lower()
        self.chunked = b'\r\ntransfer-encoding: chunked' in lower
        announced = re.search(rb'\r\ncontent-length: (\d+)', lower)
        self.body_left = None if self.chunked else int(announced[1]) if announced else 0
        self.body.clear()
        self.busy = True
        self.bodied = False
        self.watchers = []
        counts[self.fate] += 1
        self.enter(query)
        self.served += 1
        if self.fate == 'early':
            self.bodied = True
            self.finish(self.head('Connection: close', self.length) + fill(self.id, self.length))
            self.transport.close()

    def read_body(self):
        if not self.chunked:
            self.body += self.data
            self.data.clear()
            if len(self.body) < self.body_left:
                return
        else:
            while True:
                size, line, rest = self.data.partition(b'\r\n')
                if not line:
                    return
                length = int(size, 16)
                if len(rest) < length + 2:
                    return
                self.body += rest[:length]
                self.data = rest[length + 2:]
                if length == 0:
                    break
        self.bodied = True
        if bytes(self.body) != self.expected or self.data:
            wrong.append(f'{self.id}: a body of {len(self.body)} and {len(self.data)} bytes, '
                         f'not {len(self.expected)}')
        delay = {'quick': 0, 'hang': None, 'large': 0}.get(self.fate, rng.uniform(0, 0.15))
        if delay == 0:
            self.act()
        elif delay is not None:
            asyncio.get_running_loop().call_later(delay, self.act)

    # ---- what goes

    def head(self, more='', length=None):
        framing = 'Transfer-Encoding: chunked\r\n' if length is None else f'Content-Length: {length}\r\n'
        more = more + '\r\n' if more else ''
        return f'HTTP/1.1 200 OK\r\nX-Id: {self.id}\r\n{framing}{more}\r\n'.encode()

    def finish(self, last):
        """The last of a reply: from now on the gateway may send the next one."""
        self.leave()
        self.busy = False
        self.transport.write(last)

    def reset(self):
        self.leave()
        sock = self.transport.get_extra_info('socket')
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.transport.abort()

    def close(self):
        self.leave()
        self.transport.close()

    def act(self):
        if not self.gone:
            getattr(self, 'do_' + self.fate)()

    def do_quick(self):
        body = b'' if self.method == 'HEAD' else fill(self.id, self.length)
        self.finish(self.head(length=self.length) + body)

    do_slow = do_quick

    def do_chunks(self):
        body = fill(self.id, self.length)
        size = max(1, self.length // 8)
        pieces = [body[i:i + size] for i in range(0, len(body), size)]
        self.transport.write(self.head())
        self.send_chunks(pieces)

    def send_chunks(self, pieces):
        if self.gone:
            return
        if not pieces:
            self.finish(b'0\r\n\r\n')
            return
        self.transport.write(b'%x\r\n%s\r\n' % (len(pieces[0]), pieces[0]))
        asyncio.get_running_loop().call_later(rng.uniform(0, 0.02), self.send_chunks, pieces[1:])

    def do_large(self):
        self.transport.write(self.head(length=len(LARGE)))
        self.more = 0
        self.send_more()

    def send_more(self):
        while self.more is not None and not self.paused and not self.gone:
            piece = LARGE[self.more:self.more + (1 << 17)]
            self.more += len(piece)
            if self.more < len(LARGE):
                self.transport.write(piece)
            else:
                self.more = None
                self.finish(piece)

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False
        self.send_more()

    def do_until_close(self):
        self.leave()
        self.transport.write(f'HTTP/1.1 200 OK\r\nX-Id: {self.id}\r\nConnection: close\r\n\r\n'.encode()
                             + fill(self.id, self.length))
        self.transport.close()

    def do_reset_first(self):
        self.reset()

    def do_close_first(self):
        self.close()

    def do_reset_head(self):
        self.transport.write(b'HTTP/1.1 200 OK\r\nX-Half: ')
        self.reset()

    def do_close_head(self):
        self.transport.write(b'HTTP/1.1 200 OK\r\nX-Half: ')
        self.close()

    def do_reset_body(self):
        self.transport.write(self.head(length=self.length + 5000) + fill(self.id, self.length))
        asyncio.get_running_loop().call_later(0.01, self.reset)

    def do_close_body(self):
        self.transport.write(self.head(length=self.length + 1) + fill(self.id, self.length))
        self.close()

    def do_close_chunk(self):
        self.transport.write(self.head() + b'%x\r\n%s' % (self.length + 1, fill(self.id, self.length)))
        self.close()

    # ---- the end

    def eof_received(self):
        self.gone = True
        self.leave(gone=True)
        return False

    def connection_lost(self, _error):
        self.gone = True
        self.fd = -1
        self.leave(gone=True)


async def main(path):
    logging.getLogger('asyncio').setLevel(logging.ERROR)  # clients that go away are no news here
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Visit, '127.0.0.1', 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    deadline = time.monotonic() + ENDING_S
    while any(inside.values()) and time.monotonic() < deadline:  # connections that end now
        await asyncio.sleep(0.01)
    record = {'arrivals': arrivals, 'counts': counts, 'wrong': wrong,
              'inside': sum(len(visits) for visits in inside.values())}
    with open(path, 'w', encoding='ascii') as file:
        json.dump(record, file)


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1]))
