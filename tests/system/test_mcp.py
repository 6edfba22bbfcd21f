"""MCP: the official client and a server of the official SDK, with Weir between them, and the conformance suite."""
import contextlib
import json
import pathlib
import re

from raw import run
from test_clients import NODE, fetch, line_of, node, output
from weir import weir

SDK = '@modelcontextprotocol/sdk'
CONFORMANCE = '@modelcontextprotocol/conformance'
SERVER = pathlib.Path(__file__).with_name('mcp_server.js').read_text()

# A client for each line on stdin: {"client": name, "do": ..., ...}. Every step says a line when it is done.
CLIENT = '''
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');
const clients = new Map();
const say = said => process.stdout.write(JSON.stringify(said) + '\\n');
const steps = {
    async connect(name) {
        const client = new Client({ name, version: '1' }, { capabilities: { sampling: {}, elicitation: {} } });
        const transport = new StreamableHTTPClientTransport(new URL(process.argv[1] + '/mcp'));
        client.setRequestHandler(types.CreateMessageRequestSchema, async request => ({
            role: 'assistant', model: 'm', content: { type: 'text', text: request.params.messages[0].content.text + '!' } }));
        client.setRequestHandler(types.ElicitRequestSchema, async () => ({ action: 'accept', content: { username: 'u' } }));
        client.setNotificationHandler(types.LoggingMessageNotificationSchema, async told => say({ told: told.params.data, name }));
        client.onerror = () => {};
        clients.set(name, { client, transport });
        await client.connect(transport);
        return 'connected';
    },
    async call(name, step) {
        const signal = step.abort ? AbortSignal.timeout(step.abort) : undefined;
        const said = await clients.get(name).client.callTool({ name: step.tool, arguments: step.arguments || {} }, undefined, { signal });
        return said.content[0].text;
    },
    async leave(name) {
        const { client, transport } = clients.get(name);
        await transport.terminateSession();
        await client.close();
        return 'left';
    },
};
require('readline').createInterface({ input: process.stdin }).on('line', line => {
    const step = JSON.parse(line);
    steps[step.do](step.client, step).then(
        done => say({ id: step.id, done }), wrong => say({ id: step.id, wrong: wrong.message, code: wrong.code }));
}).on('close', () => process.exit(0));
'''


class Program:
    """A Node.js program that is told things by lines, and says some."""

    def __init__(self, process):
        self.process = process
        self.said = []
        self.steps = 0

    async def tell(self, line):
        self.process.stdin.write(line.encode() + b'\n')
        await self.process.stdin.drain()

    async def hear(self, **wanted):
        """What it says with these values, now or before."""
        while True:
            for said in self.said:
                if all(said.get(name) == value for name, value in wanted.items()):
                    self.said.remove(said)
                    return said
            self.said.append(await line_of(self.process))

    async def begin(self, client, do, **more):
        self.steps += 1
        await self.tell(json.dumps({'id': self.steps, 'client': client, 'do': do, **more}))
        return self.steps

    async def end(self, step):
        said = await self.hear(id=step)
        assert 'done' in said, said
        return said['done']

    async def do(self, client, do, **more):
        return await self.end(await self.begin(client, do, **more))


def config_of(url, limit):
    return f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
grace: 5s
upstreams: {{ tools: {{ url: "{url}" }} }}
gates: {{ tools: {{ limit: {limit} }}, sessions: {{ limit: 10, line: {{ timeout: 50ms }} }} }}
routes:
  - match: /mcp
    upstream: tools
    gate: tools
    key: "json:params.name"
    json_rpc: true
    sessions: {{ gate: sessions }}
'''


@contextlib.asynccontextmanager
async def tools(limit=2):
    """The gateway, what tells the server, and what tells clients."""
    async with node(SERVER, SDK) as server:
        made = Program(server)
        url = (await line_of(server))['url']
        async with weir(config_of(url, limit)) as gateway, node(CLIENT, SDK, gateway.url) as clients:
            yield gateway, made, Program(clients)


@run
async def test_ten_idle_clients_leave_all_permits_to_tool_calls():
    names = [f'c{i}' for i in range(10)]
    async with tools() as (gateway, server, clients):
        for step in [await clients.begin(name, 'connect') for name in names]:
            assert await clients.end(step) == 'connected'
        await gateway.until('all', 'sessions', active=10)  # the idle streams
        for step in [await clients.begin(name, 'call', tool='echo', arguments={'text': name}) for name in names]:
            assert await clients.end(step) in names
        held = [await clients.begin(name, 'call', tool='hold', arguments={'name': name}) for name in names[:3]]
        await gateway.until('hold', 'tools', active=2, waiting=1)
        # Every permit of that tool is taken. Other tools, sessions that end and new ones need none of them.
        assert await clients.do('c9', 'call', tool='echo', arguments={'text': 'x'}) == 'x'
        assert await clients.do('c9', 'leave') == 'left'
        await gateway.until('all', 'sessions', active=9)
        assert await clients.do('c9', 'connect') == 'connected'
        await gateway.until('all', 'sessions', active=10)
        assert await clients.do('c9', 'call', tool='echo', arguments={'text': 'again'}) == 'again'
        for name in names[:3]:
            await server.tell(name)
        assert [await clients.end(step) for step in held] == [f'held {name}' for name in names[:3]]
        await gateway.until('hold', 'tools', active=0, waiting=0)
        await server.tell('!quiet no more')  # the streams are still there
        for name in names:
            await clients.hear(told='quiet no more', name=name)
        for name in names:
            assert await clients.do(name, 'leave') == 'left'
        await gateway.until('all', 'sessions', active=0)


@run
async def test_a_tool_that_asks_its_client_needs_no_second_permit():
    async with tools(limit=1) as (gateway, _, clients):
        await clients.do('c', 'connect')
        assert await clients.do('c', 'call', tool='test_sampling', arguments={'prompt': 'hi'}) == 'LLM response: hi!'
        said = await clients.do('c', 'call', tool='test_elicitation', arguments={'message': 'who?'})
        assert said == 'Elicitation completed: action=accept, content={"username":"u"}'
        await gateway.until('test_sampling', 'tools', active=0)


@run
async def test_a_call_that_is_cancelled_in_line_leaves_it():
    async with tools(limit=1) as (gateway, server, clients):
        for name in ('a', 'b'):
            await clients.do(name, 'connect')
        held = await clients.begin('a', 'call', tool='hold', arguments={'name': 'a'})
        await gateway.until('hold', 'tools', active=1)
        cancelled = await clients.begin('b', 'call', tool='hold', arguments={'name': 'b'}, abort=300)
        assert 'wrong' in await clients.hear(id=cancelled)
        assert await clients.do('b', 'call', tool='echo', arguments={'text': 'still here'}) == 'still here'
        await server.tell('a')
        assert await clients.end(held) == 'held a'


@run
async def test_a_client_shows_what_a_refusal_says():
    async with tools() as (gateway, _, clients):
        for name in [f'c{i}' for i in range(10)]:
            await clients.do(name, 'connect')
        await gateway.until('all', 'sessions', active=10)
        # One session too many: it works without a stream of its own.
        assert await clients.do('late', 'connect') == 'connected'
        assert await clients.do('late', 'call', tool='echo', arguments={'text': 'x'}) == 'x'
        said = await clients.hear(id=await clients.begin('c0', 'call', tool='n' * 256))
        assert said['code'] == 400
        assert '-32600' in said['wrong'] and 'has more than 255 bytes' in said['wrong']


async def verdicts(url):
    """What the conformance suite says about each of its scenarios."""
    program = fetch(CONFORMANCE) / CONFORMANCE / 'dist/index.js'
    said, _ = await output(fetch(NODE) / NODE / 'bin/node', program, 'server', '--url', f'{url}/mcp', status=None)
    return dict(re.findall(r'^. ([a-z0-9-]+): (\d+ passed, \d+ failed)', said.decode(), flags=re.M))


@run
async def test_the_conformance_suite_passes_through_weir_what_it_passes_without():
    async with node(SERVER, SDK) as server:
        url = (await line_of(server))['url']
        direct = await verdicts(url)
        async with weir(config_of(url, 1)) as gateway:
            through = await verdicts(gateway.url)
    assert len(direct) > 25
    assert sum('0 failed' in verdict for verdict in direct.values()) >= len(direct) - 1
    # Weir looks at Host and Origin, which this server does not.
    assert direct.pop('dns-rebinding-protection') == '1 passed, 1 failed'
    assert through.pop('dns-rebinding-protection') == '2 passed, 0 failed'
    assert through == direct
