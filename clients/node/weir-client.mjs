// Permits of a running Weir for Node.js programs (18 or later; no dependencies). docs/reference/api.md is the protocol.
//
//     const gate = new Gate({ gate: 'agents' });
//     await gate.run('agentB', { flow: 'f', timeoutMs: 5000 }, async (permit) => { ... });
//
// Who waits stands in the server's line. In run() the connection is the permit: whatever ends the process gives it back
// at once. acquire() without `hold` is kept by its lease, and may be given back by anybody who knows it. If a kept
// connection turns out dead before anything came, the call is made again, once, on a new one. Types: weir-client.d.ts.
import http from 'node:http';

const PATIENCE_MS = 10_000; // for a reply, beyond what was asked to wait
const ABANDON_MS = 3_000; // for the end of a call that was called off, where the server lets half-closed connections wait
const IDLE_MAX = 16;
const TIMER_MAX_MS = 2 ** 31 - 1; // Node takes a longer one for none at all
const BODY_MAX = 1 << 26; // of a reply; a line of all that may wait fits

// ---- what is said when there is no permit

/** Any failure. What the server did not say is undefined; `type` is then empty. */
export class WeirError extends Error {
    constructor(message, { document = {}, status = 0, retryAfterMs, key, flow, cause } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        this.name = new.target.name;
        this.document = document;
        this.status = status;
        this.type = document.type ?? '';
        this.title = document.title ?? '';
        this.detail = document.detail ?? message;
        this.gate = document.gate;
        this.key = document.key ?? key;
        this.flow = document.flow ?? flow;
        this.tenant = document.tenant;
        this.active = document.active;
        this.waiting = document.waiting;
        this.limit = document.limit;
        this.waitedMs = document.waited_ms;
        this.timeoutMs = document.timeout_ms;
        this.retryAfterMs = retryAfterMs;
    }

    /** The key, for whom it is an agent. */
    get agent() {
        return this.key;
    }
}

/** The server said no; `type` tells why, `detail` what to do. */
export class WeirRefused extends WeirError {}

/** Its turn did not come in time. */
export class WeirTimeout extends WeirRefused {}

/** The permit was never given, was given back, or its lease is over. */
export class WeirNotHeld extends WeirRefused {}

/** There was no answer, or none that can be read. */
export class WeirUnreachable extends WeirError {}

const KINDS = { 'urn:weir:line-timeout': WeirTimeout, 'urn:weir:not-held': WeirNotHeld };

function parse(text) {
    try {
        const said = JSON.parse(text);
        return typeof said === 'object' && said !== null && !Array.isArray(said) ? said : undefined;
    } catch {
        return undefined;
    }
}

function refusal({ status, headers, text }, { key, flow }) {
    const said = parse(text);
    if (said === undefined) { // not of a Weir, but of something in between
        return new WeirRefused(`the reply was ${status}, without a reason`, { status, key, flow });
    }
    const after = headers['retry-after'];
    let place = '';
    if (said.active !== undefined) {
        const limit = said.limit === null ? 'no limit' : `a limit of ${said.limit}`;
        const name = said.flow ? ` for flow ${said.flow}` : '';
        place = `${said.key}${name}: ${said.active} active of ${limit}, ${said.waiting} waiting, after ${said.waited_ms} ms: `;
    }
    const retryAfterMs = /^\d+$/.test(after ?? '') ? Number(after) * 1000 : undefined;
    return new (KINDS[said.type] ?? WeirRefused)(place + said.detail,
        { document: said, status, retryAfterMs, key, flow });
}

// ---- permits

/** What was given. `outcome` and `cost` may be set before it is given back. */
export class Permit {
    #controller = new AbortController();
    #request;

    constructor(key, said, request) {
        this.key = key;
        this.id = said.permit;
        this.flow = said.flow;
        this.waitedMs = said.waited_ms;
        this.active = said.active;
        this.waiting = said.waiting;
        this.limit = said.limit;
        this.leaseMs = said.lease_ms;
        this.outcome = undefined;
        this.cost = undefined;
        this.#request = request;
        request?.once('close', () => {
            if (this.#request !== undefined) {
                this.#controller.abort(new WeirUnreachable('the connection that holds the permit has ended', { key }));
            }
        });
    }

    /** The key, for whom it is an agent. */
    get agent() {
        return this.key;
    }

    /** Fires when the connection that holds it ends, and the permit with it. Never without `hold`. */
    get signal() {
        return this.#controller.signal;
    }

    /** For Gate: ends the connection that holds it, if one does. */
    _letGo() {
        const request = this.#request;
        this.#request = undefined;
        request?.destroy();
    }
}

// ---- the gate

const whole = (ms) => (ms === undefined || ms === null ? undefined : Math.ceil(ms));

/** One segment of a path. Dots alone would be taken for a way up. */
function segment(name) {
    const text = encodeURIComponent(name);
    return /^\.+$/.test(text) ? text.replaceAll('.', '%2E') : text;
}

/** Whose key, by which name, and what else was said: of (permit, more), or of (key, flow, more). */
function meant([permit, ...rest]) {
    if (permit instanceof Permit) {
        return { key: permit.key, name: { permit: permit.id }, more: rest[0] ?? {}, permit };
    }
    if (typeof rest[0] !== 'string' || rest[0] === '') {
        throw new TypeError('name a permit, or a key and a flow');
    }
    return { key: permit, flow: rest[0], name: { flow: rest[0] }, more: rest[1] ?? {} };
}

export class Gate {
    #agent = new http.Agent({ keepAlive: true, maxFreeSockets: IDLE_MAX });
    #headers = { 'Content-Type': 'application/json' };
    #url;

    constructor({ api = 'http://127.0.0.1:7070', gate = 'agents', token } = {}) {
        this.#url = new URL(api);
        if (this.#url.protocol !== 'http:') {
            throw new TypeError(`${api} is no http:// address`);
        }
        this.api = api;
        this.gate = gate;
        if (token !== undefined) {
            http.validateHeaderValue('Authorization', `Bearer ${token}`);
            this.#headers.Authorization = `Bearer ${token}`;
        }
    }

    /** Waits for a permit, does the work, and gives the permit back, whatever happens. Giving back does not throw: what
     * was done is done. */
    async run(key, ...rest) {
        const work = rest.pop();
        const permit = await this.acquire(key, { hold: true, ...rest[0] });
        try {
            return await work(permit);
        } finally {
            await this.release(permit).catch((error) => {
                if (!(error instanceof WeirError)) {
                    throw error;
                }
            });
        }
    }

    /** Waits for a permit that release() gives back, or the end of its lease. */
    async acquire(key, { flow, tenant, priority, cost, timeoutMs, leaseMs, hold = false, signal } = {}) {
        const wish = {
            flow: flow || undefined, tenant: tenant || undefined, priority, cost, timeout_ms: whole(timeoutMs),
            lease_ms: whole(leaseMs), hold: hold || undefined,
        };
        const reply = await this.#exchange({
            method: 'POST', path: this.#path(this.gate, key, 'acquire'), wish, hold, signal,
            patienceMs: wish.timeout_ms === undefined ? undefined : wish.timeout_ms + PATIENCE_MS,
            unwanted: (late) => this.#giveBack(key, late),
        });
        return new Permit(key, this.#judge(reply, { key, flow }), hold ? reply.request : undefined);
    }

    /** Gives back a permit, or the oldest of a key's flow: release('agentB', 'f'). */
    async release(...args) {
        const { key, flow, name, more, permit } = meant(args);
        const wish = { ...name, outcome: more.outcome ?? permit?.outcome, cost: more.cost ?? permit?.cost };
        try {
            await this.#call('POST', this.#path(this.gate, key, 'release'), wish, { key, flow });
        } finally {
            permit?._letGo();
        }
    }

    /** Its lease begins anew; resolves to how long it is now. */
    async renew(...args) {
        const { key, flow, name, more } = meant(args);
        const wish = { ...name, lease_ms: whole(more.leaseMs) };
        const said = await this.#call('POST', this.#path(this.gate, key, 'renew'), wish, { key, flow });
        return said.lease_ms ?? null;
    }

    /** Such as { active: 2, waiting: 0, limit: 3, ... }. A key that nobody uses has none, and no limit. */
    async counts(key) {
        return (await this.#look(key, this.#path(this.gate, key))) ??
            { gate: this.gate, key, active: 0, waiting: 0, reserved: 0, limit: null };
    }

    /** Who waits there, in order. */
    async line(key) {
        return (await this.#look(key, this.#path(this.gate, key, 'line')))?.line ?? [];
    }

    /** What is decided at the gate from now on, as it happens; of these types, or of all: docs/reference/events.md. Throws
     * WeirUnreachable when the server ends.
     *
     *     for await (const event of await gate.events({ types: ['gate.throttle'] })) { ... } */
    async events({ types = [], signal } = {}) {
        signal?.throwIfAborted();
        const query = new URLSearchParams([['gate', this.gate], ...types.map((type) => ['type', type])]);
        const request = http.request({
            ...this.#place(), path: `${this.#base()}/events?${query}`, agent: false, headers: this.#headers, signal,
        });
        const lost = (error) => signal?.reason ?? new WeirUnreachable(
            `${this.api} does not answer: ${error.message}`, { cause: error });
        const response = await new Promise((resolve, reject) => {
            const timer = setTimeout(() => request.destroy(new Error('no answer in time')), PATIENCE_MS);
            request.on('error', (error) => { clearTimeout(timer); reject(lost(error)); });
            request.on('response', (reply) => { clearTimeout(timer); resolve(reply); });
            request.end();
        });
        response.setEncoding('utf8');
        if (response.statusCode !== 200) {
            let text = '';
            for await (const piece of response) {
                text += piece;
            }
            throw refusal({ status: response.statusCode, headers: response.headers, text }, {});
        }
        request.socket.setKeepAlive(true, 10_000);
        return readLines(request, response, lost);
    }

    /** Closes idle connections, and those that hold a permit. The gate may still be used. */
    close() {
        this.#agent.destroy();
    }

    // ---- calls

    #place() {
        return { host: this.#url.hostname.replace(/^\[|\]$/g, ''), port: this.#url.port || 80 };
    }

    #base() {
        return this.#url.pathname.replace(/\/+$/, '');
    }

    #path(...segments) {
        return [this.#base(), 'gates', ...segments.map(segment)].join('/');
    }

    #judge(reply, about) {
        if (reply.status !== 200) {
            throw refusal(reply, about);
        }
        const said = parse(reply.text);
        if (said === undefined) {
            throw new WeirUnreachable('what answers is no Weir: its reply is no JSON object', about);
        }
        return said;
    }

    async #call(method, path, wish, about = {}) {
        return this.#judge(await this.#exchange({ method, path, wish, patienceMs: PATIENCE_MS }), about);
    }

    /** What the API says of a key; undefined for one that nobody has used, if its gate is there. */
    async #look(key, path) {
        try {
            return await this.#call('GET', path, undefined, { key });
        } catch (error) {
            if (error.status !== 404) {
                throw error;
            }
            const { gates = [] } = await this.#call('GET', this.#path());
            if (!gates.some((entry) => entry.gate === this.gate)) {
                throw error;
            }
            return undefined;
        }
    }

    /** A permit whose caller went away while the reply was under way. */
    #giveBack(key, reply) {
        const said = reply.status === 200 ? parse(reply.text) : undefined;
        if (said?.permit !== undefined) {
            this.release(new Permit(key, said), { outcome: 'cancelled' }).catch(() => {});
        }
    }

    /** Makes a call, again if a connection that was kept is dead before anything came. */
    async #exchange(call) {
        const began = performance.now();
        call.signal?.throwIfAborted();
        try {
            return await this.#send(call, this.#agent);
        } catch (error) {
            if (!error?.dead || call.signal?.aborted) {
                throw error;
            }
        }
        if (call.wish?.timeout_ms !== undefined) { // what was waited has been waited
            const left = Math.max(0, call.wish.timeout_ms - Math.floor(performance.now() - began));
            call = { ...call, wish: { ...call.wish, timeout_ms: left } };
        }
        return this.#send(call, false);
    }

    #send(call, agent) {
        const { method, path, wish, hold, patienceMs, signal, unwanted } = call;
        const text = wish === undefined ? undefined : JSON.stringify(wish);
        return new Promise((resolve, reject) => {
            const request = http.request({
                ...this.#place(), method, path, agent,
                headers: text === undefined ? this.#headers :
                    { ...this.#headers, 'Content-Length': Buffer.byteLength(text) },
            });
            let timer;
            let sofar; // the bytes that the connection had read before
            let over = false;
            let abandoned = false;
            const finish = (settle, value) => {
                over = true;
                clearTimeout(timer);
                signal?.removeEventListener('abort', onAbort);
                settle(value);
            };
            const fail = (error) => {
                if (over) {
                    return;
                }
                const socket = request.socket;
                const lost = error.code === 'ECONNRESET' || error.code === 'EPIPE';
                const unreachable = new WeirUnreachable(`${this.api} does not answer: ${error.message}`, { cause: error });
                Object.defineProperty(unreachable, 'dead', {
                    value: lost && request.reusedSocket && socket?.bytesRead === sofar });
                finish(reject, unreachable);
            };
            const answer = (reply) => {
                if (abandoned) {
                    unwanted(reply);
                } else if (!over) {
                    finish(resolve, reply);
                }
            };
            const onAbort = () => {
                finish(reject, signal.reason);
                if (hold || unwanted === undefined || request.socket === null || request.socket.connecting) {
                    request.destroy();
                    return;
                }
                // It leaves the line by ending its side; the answer may be under way already, and then goes back.
                abandoned = true;
                request.socket.end();
                setTimeout(() => request.destroy(), ABANDON_MS).unref();
            };
            if (patienceMs <= TIMER_MAX_MS) { // else whoever asks has more patience than that
                timer = setTimeout(() => request.destroy(new Error('no answer in time')), patienceMs);
            }
            signal?.addEventListener('abort', onAbort);
            request.on('error', fail);
            request.on('socket', (socket) => {
                sofar = socket.bytesRead;
                socket.setKeepAlive(true, 10_000); // a server that is gone without a word is noticed in line
            });
            request.on('response', (response) => receive(response, request, hold, answer, fail));
            request.end(text);
        });
    }
}

/** The events of a reply, line by line; leaving the loop ends the connection. */
async function* readLines(request, response, lost) {
    let rest = '';
    try {
        for await (const piece of response) {
            const lines = (rest + piece).split('\n');
            rest = lines.pop();
            for (const line of lines) {
                yield JSON.parse(line);
            }
        }
        throw new Error('it sends no more events');
    } catch (error) {
        throw lost(error);
    } finally {
        request.destroy();
    }
}

/** Reads a reply: all of it; of a permit that is held, what is said at its beginning. */
function receive(response, request, hold, answer, fail) {
    const { statusCode: status, headers } = response;
    const whole = !(hold && status === 200);
    let text = '';
    response.setEncoding('utf8');
    response.on('data', (piece) => {
        text += piece;
        if (text.length > BODY_MAX) {
            request.destroy(new Error('the reply is too long'));
        } else if (!whole && text.endsWith('\n')) {
            answer({ status, headers, text, request });
        }
    });
    response.on('error', fail); // as when it ends too early
    response.on('end', () => answer({ status, headers, text, request }));
}
