// An MCP server made with the official SDK: the tools, prompts and resources that the conformance suite asks for, and
// a few for the tests of Weir. It says its address on stdout, and a line for each call of `hold` that has begun;
// a line on stdin lets the call of that name go on, or, with a `!` in front, tells all sessions that name.
const crypto = require('crypto');
const http = require('http');
const readline = require('readline');
const { Server } = require('@modelcontextprotocol/sdk/server/index.js');
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SOUND = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const say = line => process.stdout.write(JSON.stringify(line) + '\n');
const text = said => ({ content: [{ type: 'text', text: said }] });
const pause = () => new Promise(resolve => setTimeout(resolve, 20));
const resource = (uri, said) => ({ uri, mimeType: 'text/plain', text: said });
const sessions = new Map();
const doors = new Map();
const door = name => {
    if (!doors.has(name)) {
        const one = {};
        one.opened = new Promise(resolve => { one.open = resolve; });
        doors.set(name, one);
    }
    return doors.get(name);
};

const elicit = async (extra, message, properties) => {
    const params = { message, requestedSchema: { type: 'object', properties } };
    const said = await extra.sendRequest({ method: 'elicitation/create', params }, types.ElicitResultSchema);
    return text(`Elicitation completed: action=${said.action}, content=${JSON.stringify(said.content || {})}`);
};

const tools = {
    echo: async args => text(String(args.text)),
    hold: async args => {
        say({ inside: args.name });
        await door(args.name).opened;
        return text(`held ${args.name}`);
    },
    test_simple_text: async () => text('This is a simple text response for testing.'),
    test_image_content: async () => ({ content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }] }),
    test_audio_content: async () => ({ content: [{ type: 'audio', data: SOUND, mimeType: 'audio/wav' }] }),
    test_embedded_resource: async () => ({
        content: [{ type: 'resource', resource: resource('test://embedded-resource', 'This is an embedded resource content.') }] }),
    test_multiple_content_types: async () => ({ content: [
        { type: 'text', text: 'Multiple content types test:' }, { type: 'image', data: PIXEL, mimeType: 'image/png' },
        { type: 'resource', resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: '{"test":"data"}' } }] }),
    test_tool_with_logging: async (args, extra) => {
        for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
            await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } });
            await pause();
        }
        return text('done');
    },
    test_tool_with_progress: async (args, extra) => {
        for (const progress of [0, 50, 100]) {
            if (extra._meta && extra._meta.progressToken !== undefined) {
                await extra.sendNotification({ method: 'notifications/progress',
                    params: { progressToken: extra._meta.progressToken, progress, total: 100 } });
            }
            await pause();
        }
        return text('done');
    },
    test_error_handling: async () => ({ isError: true, ...text('This tool intentionally returns an error for testing') }),
    test_sampling: async (args, extra) => {
        const said = await extra.sendRequest({ method: 'sampling/createMessage', params: { maxTokens: 100,
            messages: [{ role: 'user', content: { type: 'text', text: args.prompt } }] } }, types.CreateMessageResultSchema);
        return text(`LLM response: ${said.content.text}`);
    },
    test_elicitation: async (args, extra) => elicit(extra, args.message, {
        username: { type: 'string', description: "User's response" }, email: { type: 'string', description: "User's email address" } }),
    test_elicitation_sep1034_defaults: async (args, extra) => elicit(extra, 'Please review the defaults', {
        name: { type: 'string', default: 'John Doe' }, age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 }, verified: { type: 'boolean', default: true },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' } }),
    test_elicitation_sep1330_enums: async (args, extra) => elicit(extra, 'Please choose', {
        untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
        titledSingle: { type: 'string', oneOf: [{ const: 'value1', title: 'First Option' }, { const: 'value2', title: 'Second Option' }] },
        legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['Option One', 'Option Two'] },
        untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
        titledMulti: { type: 'array', items: { anyOf: [{ const: 'value1', title: 'First Choice' }, { const: 'value2', title: 'Second Choice' }] } } }),
};

const prompts = {
    test_simple_prompt: [() => [{ type: 'text', text: 'This is a simple prompt for testing.' }], []],
    test_prompt_with_arguments: [args => [{ type: 'text', text: `Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'` }],
        [{ name: 'arg1', required: true }, { name: 'arg2', required: true }]],
    test_prompt_with_embedded_resource: [args => [
        { type: 'resource', resource: resource(args.resourceUri, 'Embedded resource content for testing.') },
        { type: 'text', text: 'Please process the embedded resource above.' }], [{ name: 'resourceUri', required: true }]],
    test_prompt_with_image: [() => [{ type: 'image', data: PIXEL, mimeType: 'image/png' },
        { type: 'text', text: 'Please analyze the image above.' }], []],
};

const resources = [
    { uri: 'test://static-text', name: 'Static Text', mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
    { uri: 'test://static-binary', name: 'Static Binary', mimeType: 'image/png', blob: PIXEL },
    { uri: 'test://watched-resource', name: 'Watched', mimeType: 'text/plain', text: 'watched' },
];

const DRAFT = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
    $defs: { address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } }, additionalProperties: false };

const serve = () => {
    const server = new Server({ name: 'tools', version: '1.0.0' }, { capabilities: { tools: {}, prompts: {}, logging: {},
        completions: {}, resources: { subscribe: true, listChanged: true } } });
    server.setRequestHandler(types.ListToolsRequestSchema, async () => ({ tools: [
        ...Object.keys(tools).map(name => ({ name, description: name, inputSchema: { type: 'object', properties: {} } })),
        { name: 'json_schema_2020_12_tool', description: 'draft 2020-12', inputSchema: DRAFT }] }));
    server.setRequestHandler(types.CallToolRequestSchema, async (request, extra) =>
        tools[request.params.name](request.params.arguments || {}, extra));
    server.setRequestHandler(types.ListPromptsRequestSchema, async () => ({
        prompts: Object.entries(prompts).map(([name, [, wanted]]) => ({ name, description: name, arguments: wanted })) }));
    server.setRequestHandler(types.GetPromptRequestSchema, async request => ({
        messages: prompts[request.params.name][0](request.params.arguments || {}).map(content => ({ role: 'user', content })) }));
    server.setRequestHandler(types.ListResourcesRequestSchema, async () => ({
        resources: resources.map(({ uri, name, mimeType }) => ({ uri, name, mimeType })) }));
    server.setRequestHandler(types.ListResourceTemplatesRequestSchema, async () => ({
        resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'Template', mimeType: 'application/json' }] }));
    server.setRequestHandler(types.ReadResourceRequestSchema, async request => {
        const id = /^test:\/\/template\/(.*)\/data$/.exec(request.params.uri);
        const found = resources.find(one => one.uri === request.params.uri);
        return { contents: [id ? { uri: request.params.uri, mimeType: 'application/json',
            text: JSON.stringify({ id: id[1], templateTest: true, data: `Data for ID: ${id[1]}` }) } : found] };
    });
    server.setRequestHandler(types.SubscribeRequestSchema, async () => ({}));
    server.setRequestHandler(types.UnsubscribeRequestSchema, async () => ({}));
    server.setRequestHandler(types.SetLevelRequestSchema, async () => ({}));
    server.setRequestHandler(types.CompleteRequestSchema, async () => ({ completion: { values: [], total: 0, hasMore: false } }));
    return server;
};

const answer = async (request, response) => {
    const id = request.headers['mcp-session-id'];
    if (id !== undefined && !sessions.has(id)) {
        response.writeHead(404).end();
        return;
    }
    let transport = sessions.get(id)?.transport;
    if (transport === undefined) {
        const server = serve();
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: () => crypto.randomUUID(),
            onsessioninitialized: made => sessions.set(made, { server, transport }),
            onsessionclosed: closed => { sessions.delete(closed); say({ closed }); },
        });
        await server.connect(transport);
    }
    await transport.handleRequest(request, response);
};

const server = http.createServer((request, response) => answer(request, response).catch(wrong => {
    console.error(wrong);
    response.destroy();
}));
server.keepAliveTimeout = 60000;
server.listen(0, '127.0.0.1', () => say({ url: `http://127.0.0.1:${server.address().port}` }));
readline.createInterface({ input: process.stdin }).on('line', line => {
    if (!line.startsWith('!')) {
        door(line).open();
        return;
    }
    for (const session of sessions.values()) {
        session.server.notification({ method: 'notifications/message', params: { level: 'info', data: line.slice(1) } })
            .catch(() => {});
    }
}).on('close', () => process.exit(0));
