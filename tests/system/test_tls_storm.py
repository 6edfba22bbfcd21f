"""A storm of TLS: servers that shake hands slowly, never, by half or as somebody else, and that break replies off in
every way, names whose addresses come and go, clients that leave, and reloads. Every reply that looks whole is whole and
the right one, nothing is said to a server that is not trusted, nothing is sent twice, and nothing is left of it.

WEIR_STORM_SECONDS says how long, WEIR_SEED repeats one as far as the kernel's timing allows."""
import asyncio
import collections
import contextlib
import os
import random
import re
import socket
import ssl
import struct

from dns import NXDOMAIN, SERVFAIL, Dns
from secure import town
from storm_raw import descriptors, dial, read_reply, request
from storm_upstream import fill
from weir import PATIENCE, until, weir

SECONDS = float(os.environ.get('WEIR_STORM_SECONDS', '5'))
SEED = int(os.environ.get('WEIR_SEED', '0')) or random.SystemRandom().randrange(1, 1 << 32)
CLIENTS = 60
NAMES = ('one.test', 'two.test')
KEPT = 2 * (4 * 4 + 1)  # descriptors of two threads: connections to four urls, and what asks the DNS

# How a server greets, and how often.
GREETINGS = {'properly': 60, 'slowly': 8, 'never': 2, 'by a reset': 3, 'by half, then a reset': 3,
             'by half, then its end': 3, 'without TLS': 2, 'and is another': 3, 'and is too old': 3,
             'and is nobody': 3, 'and goes': 3, 'and says goodbye': 3}
STRANGERS = ('and is another', 'and is too old', 'and is nobody')
# What becomes of a request: replies that are whole, if the server was reached; those that break off; and none.
WHOLE = {'at once': 30, 'in chunks': 10, 'in two parts': 8, 'until its goodbye': 6, 'with a surplus': 3,
         'then a goodbye': 4}
EITHER = {'then a reset': 4}  # which takes away what has not been read
BROKEN = {'until its end': 4, 'until its reset': 4, 'by half a record': 4, 'too short, goodbye': 4,
          'too short, end': 4, 'half a chunk': 4, 'a forged record': 4}
NONE = {'goodbye': 4, 'reset': 4, 'end': 4, 'half a head': 4}
FATES = {**WHOLE, **EITHER, **BROKEN, **NONE}


def choose(rng, weights):
    return rng.choices(list(weights), list(weights.values()))[0]


def body_of(name, fate):
    return fill(name, 50 * len(fate) ** 2)  # up to nearly a record


class Peer(asyncio.Protocol):
    """A connection to a server. TLS is spoken into memory, so that what it says can be cut anywhere."""
    world = None

    def connection_made(self, transport):
        self.transport = transport
        self.rng = self.world.rng
        self.greeting = choose(self.rng, GREETINGS)
        self.world.counts['greets ' + self.greeting] += 1
        contexts = self.world.contexts
        self.said, self.heard = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = self.rng.choice(contexts.get(self.greeting, contexts['properly']))
        self.tls = context.wrap_bio(self.heard, self.said, server_side=True)
        self.shaken = False
        self.over = False
        self.busy = False  # with a request; the next one waits
        self.data = bytearray()

    def connection_lost(self, _error):
        self.over = True

    def data_received(self, data):
        if self.over or self.greeting == 'never':
            return
        self.heard.write(data)
        try:
            if self.shaken or self.greet():
                self.read()
        except ssl.SSLError:  # what the gateway thinks of a stranger, or of a forged record
            self.end()

    # ---- what goes

    def flush(self, part=1.0):
        data = self.said.read()
        if not self.over:
            self.transport.write(data[:int(len(data) * part)])

    def end(self):
        self.flush()
        self.over = True
        self.transport.close()

    def goodbye(self):
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        self.end()

    def reset(self):
        self.over = True
        sock = self.transport.get_extra_info('socket')
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.transport.abort()

    def send(self, data, part=1.0):
        if not self.over:
            self.tls.write(data)
            self.flush(part)

    async def drip(self, data):
        size = self.rng.choice([7, 40, 300])
        for i in range(0, len(data), size):
            if not self.over:
                self.transport.write(data[i:i + size])
                await asyncio.sleep(0.001)

    # ---- handshakes

    def greet(self):
        """True if there is somebody to listen to."""
        if self.greeting == 'by a reset':
            self.reset()
            return False
        if self.greeting == 'without TLS':
            self.transport.write(b'HTTP/1.1 200 OK\r\nX-Id: plain\r\nContent-Length: 0\r\n\r\n')
            self.end()
            return False
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            if self.greeting.startswith('by half'):
                self.flush(self.rng.random())
                (self.reset if self.greeting.endswith('reset') else self.end)()
            elif self.greeting == 'slowly':
                self.world.start(self.drip(self.said.read()))
            self.flush()
            return False
        self.shaken = True
        self.world.counts['sessions taken up'] += self.tls.session_reused
        self.flush()
        if self.greeting == 'and goes':
            self.reset()
        elif self.greeting == 'and says goodbye':
            self.goodbye()
        return not self.over

    # ---- requests

    def read(self):
        while not self.over:
            try:
                data = self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self.flush()
                return
            if not data:
                self.end()
                return
            if self.greeting in STRANGERS:
                self.world.wrong.append(f'a server that greets {self.greeting} was sent {data[:200]!r}')
            self.data += data
            self.take()

    def take(self):
        head, end, rest = self.data.partition(b'\r\n\r\n')
        length = int((re.search(rb'(?i)\r\ncontent-length: (\d+)', head) or [0, 0])[1])
        if self.busy or not end or len(rest) < length:
            return
        self.busy = True
        name, fate = re.match(rb'\w+ /[^?]*\?id=(\w+)&fate=(\S+) ', head).groups()
        del self.data[:len(head) + 4 + length]
        if rest[:length] != fill(name.decode(), length) or self.data:
            self.world.wrong.append(f'{name}: not its body, or more than that')
        if head.startswith(b'POST'):
            self.world.posts[name] += 1
        self.world.start(self.answer(name.decode(), fate.decode().replace('_', ' ')))

    def head(self, name, framing):
        return f'HTTP/1.1 200 OK\r\nX-Id: {name}\r\n{framing}\r\n\r\n'.encode()

    async def answer(self, name, fate):
        await asyncio.sleep(self.rng.choice([0, self.rng.uniform(0, 0.02)]))
        if self.over:
            return
        self.world.counts['answers ' + fate] += 1
        body = body_of(name, fate)
        whole = self.head(name, f'Content-Length: {len(body)}') + body
        short = self.head(name, f'Content-Length: {len(body) + 9}') + body
        endless = self.head(name, 'Connection: close') + body
        chunk = self.head(name, 'Transfer-Encoding: chunked') + b'%x\r\n%s' % (len(body), body)
        data, last = {
            'at once': (whole, None), 'in chunks': (chunk, lambda: self.send(b'\r\n0\r\n\r\n')),
            'in two parts': (whole[:-9], lambda: self.send(whole[-9:])),
            'until its goodbye': (endless, self.goodbye),
            'with a surplus': (whole + b'HTTP/1.1 200 OK\r\nX-Id: surplus\r\nContent-Length: 0\r\n\r\n', None),
            'then a goodbye': (whole, self.goodbye), 'then a reset': (whole, self.reset),
            'until its end': (endless, self.end), 'until its reset': (endless, self.reset),
            'by half a record': (endless, self.half), 'too short, goodbye': (short, self.goodbye),
            'too short, end': (short, self.end), 'half a chunk': (chunk, self.goodbye),
            'a forged record': (short, self.forge), 'goodbye': (b'', self.goodbye), 'reset': (b'', self.reset),
            'end': (b'', self.end), 'half a head': (b'HTTP/1.1 200 OK\r\nX-', self.end)}[fate]
        if data:
            self.send(data)
        if last is not None:
            await asyncio.sleep(self.rng.choice([0, 0.005]))
            if not self.over:
                last()
        self.busy = False
        self.take()

    def half(self):
        self.send(bytes(1000), 0.5)
        self.end()

    def forge(self):
        self.tls.write(bytes(9))
        data = bytearray(self.said.read())
        data[-1] ^= 1
        self.transport.write(bytes(data))


class Wild(Dns):
    """The DNS of a world that has not made up its mind."""

    def datagram_received(self, packet, peer):
        rng = Peer.world.rng
        self.failure = rng.choice([None] * 20 + [SERVFAIL, NXDOMAIN])
        self.truncate = rng.random() < 0.1
        self.ttl = rng.choice([0, 1, 60])
        for name in NAMES:
            self.zone[name] = rng.choice([
                ['127.0.0.1'], ['127.0.0.2', '127.0.0.1'], ['127.0.0.9', '127.0.0.2'], ['::1', '127.0.0.1'],
                ['127.0.0.9', '::1'], [f'127.0.0.{i}' for i in range(1, 20)], ['127.0.0.9']])
        if rng.random() > 0.05:
            super().datagram_received(packet, peer)


class World:
    """What the servers and the clients have in common."""

    def __init__(self, place):
        names = (*NAMES, '127.0.0.1')
        self.rng = random.Random(SEED)
        self.contexts = {
            'properly': [place.context(*names, version=version)
                         for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)],
            'and is another': [place.context('other.test')], 'and is too old': [place.context(*names, days=(-3, -2))],
            'and is nobody': [place.context(*names, issuer=None)]}
        self.counts = collections.Counter()
        self.posts = collections.Counter()
        self.wrong = []
        self.stopping = False
        self.serial = 0
        self.tasks = set()

    def start(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def missing(self):
        """What must have happened, or the storm has tested nothing."""
        expected = [200, 502, 'broken off', 'sessions taken up', 'reloads', *(f'greets {name}' for name in GREETINGS),
                    *(f'answers {name}' for name in FATES)]
        return [name for name in expected if not self.counts[name]]

    # ---- clients

    async def client(self, port):
        while not self.stopping:
            async with dial(port) as wire:
                for _ in range(self.rng.randrange(1, 5)):
                    if not await self.ask(wire):
                        break

    async def ask(self, wire):
        """Whether the connection goes on."""
        rng = self.rng
        self.serial += 1
        name, fate = f'r{self.serial}', choose(rng, FATES)
        method = rng.choice(['GET', 'POST'])
        body = fill(name, rng.choice([1, 5000, 100_000])) if method == 'POST' else b''
        path = f'/{rng.randrange(3)}/?id={name}&fate={fate.replace(" ", "_")}'
        wire.writer.write(request(path, method=method, body=body))
        if rng.random() < 0.1:
            await asyncio.sleep(rng.choice([0, rng.uniform(0, 0.1)]))
            return False  # and leaves
        try:
            status, fields, said = await asyncio.wait_for(read_reply(wire.reader), PATIENCE)
        except (asyncio.IncompleteReadError, ConnectionError):
            if fate in WHOLE:
                self.wrong.append(f'{name}: a reply {fate} breaks off')
            self.counts['broken off'] += 1
            return False
        self.counts[status] += 1
        if status == 200:
            if fields.get(b'x-id') != name.encode() or said != body_of(name, fate):
                self.wrong.append(f'{name} got {len(said)} bytes of a reply to {fields.get(b"x-id")}')
            elif fate in BROKEN or fate in NONE:
                self.wrong.append(f'{name}: a reply {fate} looks whole')
        elif status not in (429, 502, 504):
            self.wrong.append(f'{name} got {status} {said[:200]!r}')
        return fields.get(b'connection') == b'keep-alive'


def config(rng, place, port, names):
    urls = (f'"https://one.test:{port}"', f'["https://two.test:{port}", "https://one.test:{port}"]',
            f'"https://127.0.0.1:{port}"')
    upstreams = ''.join(f'''
  u{i}:
    url: {url}
    {place.ca()}
    timeouts: {{ connect: 500ms, first_byte: 1m, idle: 1m }}
    keepalive: {rng.choice([0, 1, 4])}
    health: {{ failures: {rng.choice([0, 5])}, pause: 10ms }}''' for i, url in enumerate(urls))
    routes = ''.join(f'\n  - {{ match: /{i}/, key: k{i}, gate: g, upstream: u{i} }}' for i in range(len(urls)))
    return f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
{names.config}
gates: {{ g: {{ limit: {rng.randrange(5, 30)} }} }}
upstreams:{upstreams}
routes:{routes}
'''


async def reload_often(gateway, world, make):
    while not world.stopping:
        await asyncio.sleep(SECONDS / 10)
        gateway.path.write_text(make())
        await gateway.reload()
        world.counts['reloads'] += 1


async def all_zero(gateway):
    _, said = await gateway.ask_api('/gates/g')
    return all(key['active'] == key['waiting'] == 0 for key in said['keys'])


@contextlib.asynccontextmanager
async def servers():
    """A DNS server, and the port of servers at three addresses."""
    loop = asyncio.get_running_loop()
    first = await loop.create_server(Peer, '127.0.0.1', 0)
    port = first.sockets[0].getsockname()[1]
    others = [await loop.create_server(Peer, host, port) for host in ('127.0.0.2', '::1')]
    tcp = await asyncio.start_server(lambda *ends: names.accept(*ends), '127.0.0.1', 0)
    _, names = await loop.create_datagram_endpoint(Wild, local_addr=tcp.sockets[0].getsockname())
    try:
        yield names, port
    finally:
        names.stop()
        for server in (first, *others, tcp):
            server.close()


async def storm():
    print(f'WEIR_SEED={SEED} WEIR_STORM_SECONDS={SECONDS:g}')
    with town() as place:
        world = Peer.world = World(place)
        async with servers() as (names, port):
            def make():
                return config(world.rng, place, port, names)
            async with weir(make()) as gateway:
                await all_zero(gateway)  # and so the connection to the API is there
                before = descriptors(gateway.process.pid)
                clients = [asyncio.create_task(world.client(gateway.port)) for _ in range(CLIENTS)]
                reloads = asyncio.create_task(reload_often(gateway, world, make))
                await asyncio.sleep(SECONDS)
                await until(lambda: not world.missing(), 'all of it has happened')
                world.stopping = True
                await asyncio.wait_for(asyncio.gather(*clients, reloads), PATIENCE)
                await until(lambda: all_zero(gateway), 'nobody is active or waits')
                await until(lambda: descriptors(gateway.process.pid) <= before + KEPT, 'only kept connections are left')
                assert 'Sanitizer' not in gateway.complaints()
    print(sorted((str(name), count) for name, count in world.counts.items()))
    wrong = world.wrong + [f'{name} was sent {count} times' for name, count in world.posts.items() if count > 1]
    assert not wrong, f'{len(wrong)} are wrong:\n' + '\n'.join(wrong[:20])


def test_a_storm_of_tls_mixes_nothing_up_and_leaves_nothing_behind():
    asyncio.run(asyncio.wait_for(storm(), SECONDS + 240))
