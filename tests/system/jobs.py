"""A gateway with queues, and a caller of its API, for the tests of jobs."""
import contextlib
import json
import pathlib

import aiohttp
from raw import request, run
from weir import until, weir

KIB = 1024

# `held` runs until the file that its body names is there.
QUEUES = '''
api: 127.0.0.1:0
threads: 2
data: ./data
queues:
  echo: { run: ["cat", "{in}"], workers: 4 }
  keep: { line: { max: 20000 } }
  held: { run: ["sh", "-c", "read path; while ! test -e $path; do sleep 0.01; done; echo let go"], workers: 2, grace: 1s }
  progress:
    run: ["sh", "-c", "echo weir-progress: 0.25 a quarter >&2; read path; while ! test -e $path; do sleep 0.01; done"]
  broken: { run: ["sh", "-c", "cat >&2; exit 3"], attempts: 1, backoff: { first: 10ms, max: 10ms } }
  small: { line: { max: 2 }, body: 70000B }
  patient: { line: { max: 2, full: wait } }
  pushy: { line: { max: 2, full: drop_oldest } }
  slow: { tenants: { default: { rate: 2/h } } }
  dying: { run: ["sh", "-c", "exit 3"], attempts: 1, dead: 1 }
'''


def post(path, body=b'', *fields):
    """The bytes of a submission with its length."""
    return request(path, f'Content-Length: {len(body)}', *fields, method='POST', body=body)


def chunked(body, size):
    parts = [body[at:at + size] for at in range(0, len(body), size)]
    return b''.join(b'%x\r\n%s\r\n' % (len(part), part) for part in parts) + b'0\r\n\r\n'


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def kind(self):
        """What a problem is called."""
        assert self.headers['Content-Type'] == 'application/problem+json', self
        return self.json['type'].removeprefix('urn:weir:')

    def __repr__(self):
        return f'{self.status} {self.body[:500]!r}'


class Caller:
    """Calls the API; `token` is sent with everything."""

    def __init__(self, gateway, session, token=None):
        self.gateway = gateway
        self.session = session
        self.token = token
        self.folder = gateway.path.parent

    def with_token(self, token):
        return Caller(self.gateway, self.session, token)

    async def __call__(self, method, path, body=None, **headers):
        headers = {name.replace('_', '-'): value for name, value in headers.items()}
        if self.token:
            headers['Authorization'] = f'Bearer {self.token}'
        async with self.session.request(method, self.gateway.api + path, data=body, headers=headers,
                                        skip_auto_headers=['Content-Type']) as reply:
            return Reply(reply.status, reply.headers, await reply.read())

    async def get(self, path, status=200):
        reply = await self('GET', path)
        assert reply.status == status, reply
        return reply.json

    async def submit(self, path, body=b'', status=202, **headers):
        reply = await self('POST', '/submit' + path, body, **headers)
        assert reply.status == status, reply
        return reply.json

    async def lines(self, *lines, status=202, query='', **headers):
        body = '\n'.join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        reply = await self('POST', '/submit' + query, body.encode(), Content_Type='application/x-ndjson', **headers)
        assert reply.status == status, reply
        return reply.json

    async def state(self, job):
        return (await self.get(f'/status/{job}'))['state']

    async def until_state(self, job, state):
        async def holds():
            return await self.state(job) == state
        await until(holds, f'{job} is {state}')

    async def queue(self, name):
        [queue] = [queue for queue in (await self.get('/capacity'))['queues'] if queue['queue'] == name]
        return queue

    def bodies(self):
        """The files of long bodies and results."""
        return sorted(path.name for path in (self.folder / 'data/bodies').iterdir())

    @contextlib.contextmanager
    def gate(self, name='gate'):
        """The body of a job of `held`, and the file that lets it go."""
        path = pathlib.Path(self.folder / name)
        yield f'{path}\n'.encode(), path
        path.touch()


@contextlib.asynccontextmanager
async def jobs(config=QUEUES, **more):
    async with weir(config, **more) as gateway:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Caller(gateway, session)


def with_jobs(test, **more):
    """Makes a test of a coroutine function that is given a caller."""
    async def wrapper():
        async with jobs(**more) as call:
            await test(call)
    wrapper.__name__ = test.__name__
    wrapper.__doc__ = test.__doc__
    return run(wrapper)


async def fill(call, queue, names=('a', 'b')):
    for name in names:
        await call.submit(f'/{name}?queue={queue}', b'x')
