"""Agents and clients of the A2A SDK for JavaScript, in both versions of the protocol, and what stands between them
and Weir. They are told what to do by lines of JSON, and say in lines what they see."""
import asyncio
import contextlib
import json
import os

from test_clients import NODE, fetch, install, line_of, program

VERSIONS = {'0.3': '0.3.14', '1': '1.3.0'}

AGENT = '''
const one = process.argv[1] === '1';
const express = require('express');
const sdk = require('@a2a-js/sdk');
const {DefaultRequestHandler, InMemoryTaskStore, InMemoryPushNotificationStore, DefaultPushNotificationSender,
       AgentEvent} = require('@a2a-js/sdk/server');
const {agentCardHandler, jsonRpcHandler, restHandler, UserBuilder} = require('@a2a-js/sdk/server/express');
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
const states = one ? {working: sdk.TaskState.TASK_STATE_WORKING, completed: sdk.TaskState.TASK_STATE_COMPLETED,
                      canceled: sdk.TaskState.TASK_STATE_CANCELED,
                      'input-required': sdk.TaskState.TASK_STATE_INPUT_REQUIRED} : {};
const working = {};  // what ends each task
let ways = [];       // how requests have come

const status = state => ({state: one ? states[state] : state, timestamp: new Date().toISOString()});

function publishTask(bus, context) {
    const task = {id: context.taskId, contextId: context.contextId, status: status('working'),
                  history: [context.userMessage], artifacts: []};
    bus.publish(one ? AgentEvent.task(task) : {kind: 'task', ...task});
}

function publishState(bus, context, state) {
    const update = {taskId: context.taskId, contextId: context.contextId, status: status(state)};
    bus.publish(one ? AgentEvent.statusUpdate(update) : {kind: 'status-update', final: true, ...update});
    bus.finished();
}

const executor = {
    async execute(context, bus) {
        const part = context.userMessage.parts[0];
        const text = one ? part.content.value : part.text;
        if (text === 'say') {
            const message = {messageId: context.taskId, contextId: context.contextId, taskId: '',
                             role: one ? sdk.Role.ROLE_AGENT : 'agent',
                             parts: [one ? {content: {$case: 'text', value: 'hello'}} : {kind: 'text', text: 'hello'}]};
            bus.publish(one ? AgentEvent.message(message) : {kind: 'message', ...message});
            bus.finished();
            return;
        }
        if (!context.task && text !== 'silent') publishTask(bus, context);
        if (text === 'ask') return publishState(bus, context, 'input-required');
        const end = new Promise(resolve => { working[context.taskId] = resolve; });
        say({began: context.taskId});
        const state = await end;
        if (text === 'silent') publishTask(bus, context);
        publishState(bus, context, state);
    },
    async cancelTask(id) {
        working[id]('canceled');
    },
};

const app = express();
const server = app.listen(0, '127.0.0.1', () => {
    const url = `http://127.0.0.1:${server.address().port}`;
    const both = {name: 'planner', description: 'for tests', version: '1', skills: [], defaultInputModes: ['text'],
                  defaultOutputModes: ['text'],
                  signatures: [{protected: 'eyJhbGciOiJFUzI1NiJ9', signature: 'c2lnbmVk'}]};
    const card = one
        ? {...both, securitySchemes: {}, securityRequirements: [],
           capabilities: {streaming: true, pushNotifications: true, extendedAgentCard: true, extensions: []},
           supportedInterfaces: [
               {url: '127.0.0.1:1', protocolBinding: 'GRPC', protocolVersion: '1.0', tenant: ''},
               {url: url + '/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: ''},
               {url: url + '/rest', protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', tenant: ''}]}
        : {...both, protocolVersion: '0.3.0', url: url + '/rpc', supportsAuthenticatedExtendedCard: true,
           capabilities: {streaming: true, pushNotifications: true},
           additionalInterfaces: [{url: '127.0.0.1:1', transport: 'GRPC'}, {url: url + '/rpc', transport: 'JSONRPC'},
                                  {url: url + '/rest', transport: 'HTTP+JSON'}]};
    const store = new InMemoryPushNotificationStore();
    const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor, undefined, store,
                                              new DefaultPushNotificationSender(store), card);
    app.use((request, reply, next) => {
        ways.push(request.headers['x-forwarded-for'] || 'direct');
        next();
    });
    const userBuilder = UserBuilder.noAuthentication;
    app.use('/.well-known/agent-card.json', agentCardHandler({agentCardProvider: handler}));
    app.use('/rpc', jsonRpcHandler({requestHandler: handler, userBuilder}));
    app.use('/rest', restHandler({requestHandler: handler, userBuilder}));
    say({url});
});

require('readline').createInterface({input: process.stdin}).on('line', line => {
    const [id, state] = JSON.parse(line);
    if (id === 'ways') say({ways});
    else working[id](state);
}).on('close', () => process.exit(0));
'''

CLIENT = '''
const one = process.argv[1] === '1';
const sdk = require('@a2a-js/sdk');
const {ClientFactory, ClientFactoryOptions} = require('@a2a-js/sdk/client');
const {randomUUID} = require('crypto');
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
const calls = {};  // by number: what ends each

/* Both versions' results as [kind, id of the task, state]. */
const words = one ? Object.fromEntries(Object.entries(sdk.TaskState).map(
    ([name, number]) => [number, String(name).replace('TASK_STATE_', '').toLowerCase().replace('_', '-')])) : {};
function plain(told) {
    if (told.payload) told = {kind: told.payload.$case, ...told.payload.value};
    const kind = told.kind || (told.parts ? 'message' : 'task');
    const state = told.status && (one ? words[told.status.state] : told.status.state);
    return [{statusUpdate: 'status-update'}[kind] || kind, told.taskId || told.id || null, state || null];
}

function message(text, taskId) {
    const both = {messageId: randomUUID(), ...(taskId ? {taskId} : {})};
    return one ? {role: sdk.Role.ROLE_USER, parts: [{content: {$case: 'text', value: text}}], contextId: '',
                  taskId: '', extensions: [], referenceTaskIds: [], ...both}
               : {kind: 'message', role: 'user', parts: [{kind: 'text', text}], ...both};
}

function configuration(blocking, push) {
    if (!one) return {blocking, ...(push ? {pushNotificationConfig: {url: push}} : {})};
    return {returnImmediately: !blocking, acceptedOutputModes: [],
            ...(push ? {taskPushNotificationConfig: {id: '', taskId: '', tenant: '', url: push, token: ''}} : {})};
}

const known = {
    send: async (client, told, options) =>
        plain(await client.sendMessage({message: message(told.text, told.task), tenant: '', metadata: undefined,
                                        configuration: configuration(told.blocking !== false, told.push)}, options)),
    get: async (client, told, options) => plain(await client.getTask({id: told.task, tenant: ''}, options)),
    cancel: async (client, told, options) => plain(await client.cancelTask({id: told.task, tenant: ''}, options)),
    card: async (client) => one ? client.getAgentCard({tenant: ''}) : client.getAgentCard(),
};
const streams = {
    stream: (client, told, options) =>
        client.sendMessageStream({message: message(told.text, told.task), tenant: '', metadata: undefined,
                                  configuration: configuration(true)}, options),
    subscribe: (client, told, options) => client.resubscribeTask({id: told.task, tenant: ''}, options),
};

(async () => {
    const [, , url, transport] = process.argv;
    const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
        preferredTransports: transport ? [transport] : []});
    const client = await new ClientFactory(options).createFromUrl(url);
    say('ready');
    require('readline').createInterface({input: process.stdin}).on('line', async line => {
        const told = JSON.parse(line);
        if (told.abort) return calls[told.abort].abort();
        calls[told.call] = new AbortController();
        const options = {signal: calls[told.call].signal};
        try {
            if (streams[told.do]) {
                for await (const event of streams[told.do](client, told, options)) say([told.call, plain(event)]);
                say([told.call, 'end']);
            } else {
                say([told.call, await known[told.do](client, told, options)]);
            }
        } catch (wrong) {
            say([told.call, 'wrong', String(wrong)]);
        }
    }).on('close', () => process.exit(0));
})().catch(wrong => say(['wrong', String(wrong), wrong.stack]));
'''


def node_sdk(version, script, *arguments):
    modules = install(f'a2a-{VERSIONS[version]}', f'@a2a-js/sdk@{VERSIONS[version]}', 'express@5.1.0')
    return program(fetch(NODE) / NODE / 'bin/node', '-e', script, version, *arguments,
                   env={**os.environ, 'NODE_PATH': str(modules)})


class Agent:
    """A server of the SDK."""

    def __init__(self, process, url):
        self.process = process
        self.url = url

    async def began(self):
        """The next task that it works on."""
        return (await line_of(self.process))['began']

    async def tell(self, *what):
        self.process.stdin.write(json.dumps(what).encode() + b'\n')
        await self.process.stdin.drain()

    async def finish(self, task, state='completed'):
        await self.tell(task, state)

    async def ways(self):
        """From where each request has come, or that it has not come through Weir."""
        await self.tell('ways', None)
        return (await line_of(self.process))['ways']


@contextlib.asynccontextmanager
async def agent(version):
    async with node_sdk(version, AGENT) as process:
        yield Agent(process, (await line_of(process))['url'])


class Client:
    """A client of the SDK: calls go on at the same time, each with a number."""

    def __init__(self, process):
        self.process = process
        self.calls = 0
        self.said = {}

    async def begin(self, do, **more):
        self.calls += 1
        await self._tell(call=self.calls, do=do, **more)
        return self.calls

    async def _tell(self, **what):
        self.process.stdin.write(json.dumps(what).encode() + b'\n')
        await self.process.stdin.drain()

    async def abort(self, call):
        await self._tell(abort=call)

    async def next(self, call):
        """What the call says next; [..., None] for less to write where something is not there."""
        while not self.said.get(call):
            number, *said = await line_of(self.process)
            self.said.setdefault(number, []).append(said[0] if len(said) == 1 else said)
        return self.said[call].pop(0)

    async def do(self, do, **more):
        return await self.next(await self.begin(do, **more))


@contextlib.asynccontextmanager
async def client(version, url, transport=''):
    async with node_sdk(version, CLIENT, url, transport) as process:
        assert await line_of(process) == 'ready'
        yield Client(process)


@contextlib.asynccontextmanager
async def relay():
    """A proxy in front of Weir, whose address is known before Weir's is: as behind one with TLS. `to` is the port
    that connections go to."""
    links = set()

    async def pump(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader, writer):
        there = await asyncio.open_connection('127.0.0.1', front.to)
        ways = [asyncio.create_task(pump(reader, there[1])), asyncio.create_task(pump(there[0], writer))]
        links.update(ways)
        await asyncio.wait(ways)
        links.difference_update(ways)

    class Front:
        to = None
        url = None
    front = Front()
    server = await asyncio.start_server(connected, '127.0.0.1', 0)
    front.url = f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}'
    try:
        yield front
    finally:
        server.close()
        for link in links:
            link.cancel()
