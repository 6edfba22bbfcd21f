// Weir for Node.js programs (18 or later; no dependencies): permits of a gate, and durable jobs. docs/reference/api.md is
// the protocol.
//
//     const gate = new Gate({ gate: 'agents' });
//     await gate.run('agentB', { flow: 'f', timeoutMs: 5000 }, async (permit) => { ... });
//
//     const jobs = new Jobs({ queue: 'pricing' });
//     const job = await jobs.wait((await jobs.submit({ sku: 7 })).id);
//
// The server's address and the token come from the options `api` and `token`, else from WEIR_API and WEIR_TOKEN:
// http://HOST:PORT, https://HOST or unix:/path. MemoryGate, for tests, is in memory-gate.mjs.
//
// Callers that wait stand in the server's line. In run() the connection is the permit: whatever ends the process gives
// it back at once. acquire() without `hold` has a lease, which the gate renews while the process lives. If a kept
// connection turns out dead before anything came, the call is made again, once, on a new one. Types: weir-client.d.ts.
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import process from 'node:process';
import {
    JobFailed, JobUnfinished, Permit, WeirError, WeirNotHeld, WeirRefused, WeirTimeout, WeirUnreachable, meant, parse, refusal,
} from './internal.mjs';

export { MemoryGate } from './memory-gate.mjs';
export { JobFailed, JobUnfinished, Permit, WeirError, WeirNotHeld, WeirRefused, WeirTimeout, WeirUnreachable };

const PATIENCE_MS = 10_000; // for a reply, beyond what was asked to wait
const ABANDON_MS = 3_000; // for the end of a call that was called off, where the server lets half-closed connections wait
const IDLE_MAX = 16;
const TIMER_MAX_MS = 2 ** 31 - 1; // Node takes a longer one for none at all
const BODY_MAX = 1 << 26; // of a reply; a line of all that may wait fits
const RENEWALS = 3; // so many times in each lease it is renewed
const JOB_WAIT_S = 30; // for which one call waits for the end of a job

// ---- how a call looks

const whole = (ms) => (ms === undefined || ms === null ? undefined : Math.ceil(ms));

/** One segment of a path. Dots alone would be taken for a way up. */
function segment(name) {
    const text = encodeURIComponent(name);
    return /^\.+$/.test(text) ? text.replaceAll('.', '%2E') : text;
}

/** Connections to a server. */
class Client {
    constructor({ api, token, tls } = {}) {
        this.api = api || process.env.WEIR_API || 'http://127.0.0.1:7070';
        const secret = token || process.env.WEIR_TOKEN || undefined;
        this._headers = {};
        this._base = '';
        this._module = http;
        if (this.api.startsWith('unix:')) {
            this._place = { socketPath: this.api.slice('unix:'.length), headers: {} };
            if (this._place.socketPath === '') {
                throw new TypeError(`${this.api} names no path; expected unix:/path`);
            }
        } else {
            const url = new URL(/:\/\//.test(this.api) ? this.api : `http://${this.api}`);
            if (url.protocol !== 'http:' && url.protocol !== 'https:') {
                throw new TypeError(`${this.api} is no address; expected http://HOST:PORT, https://HOST or unix:/path`);
            }
            const secure = url.protocol === 'https:';
            this._module = secure ? https : http;
            this._place = {
                host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port || (secure ? 443 : 80), ...(secure ? tls : {}),
            };
            this._base = url.pathname.replace(/\/+$/, '');
        }
        this._agent = new this._module.Agent({ keepAlive: true, maxFreeSockets: IDLE_MAX });
        if (secret !== undefined) {
            http.validateHeaderValue('Authorization', `Bearer ${secret}`);
            this._headers.Authorization = `Bearer ${secret}`;
        }
    }

    /** Closes idle connections, and those that hold a permit. It may still be used. */
    close() {
        this._agent.destroy();
    }

    _path(...segments) {
        return [this._base, ...segments.map(segment)].join('/');
    }

    _judge(reply, about) {
        if (reply.status !== 200) {
            throw refusal(reply, about);
        }
        const said = parse(reply.text);
        if (said === undefined) {
            throw new WeirUnreachable('what answers is no Weir: its reply is no JSON object', about);
        }
        return said;
    }

    async _call(method, path, wish, about = {}) {
        return this._judge(await this._exchange({ method, path, wish, patienceMs: PATIENCE_MS }), about);
    }

    /** Makes a call, again if a connection that was kept is dead before anything came. */
    async _exchange(call) {
        const began = performance.now();
        call.signal?.throwIfAborted();
        try {
            return await this._send(call, this._agent);
        } catch (error) {
            if (!error?.dead || call.signal?.aborted) {
                throw error;
            }
        }
        if (call.wish?.timeout_ms !== undefined) { // what was waited has been waited
            const left = Math.max(0, call.wish.timeout_ms - Math.floor(performance.now() - began));
            call = { ...call, wish: { ...call.wish, timeout_ms: left } };
        }
        return this._send(call, false);
    }

    _send(call, agent) {
        const { method, path, wish, upload, hold, raw, patienceMs, signal, unwanted } = call;
        const { data, kind } = wish === undefined ? upload ?? {} : { data: JSON.stringify(wish), kind: 'application/json' };
        return new Promise((resolve, reject) => {
            const headers = { ...this._headers };
            if (data !== undefined || method === 'POST') {
                headers['Content-Length'] = Buffer.byteLength(data ?? '');
            }
            if (kind !== undefined) {
                headers['Content-Type'] = kind;
            }
            const request = this._module.request({ ...this._place, method, path, agent, headers });
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
            if (patienceMs <= TIMER_MAX_MS) { // else the caller has more patience than that
                timer = setTimeout(() => request.destroy(new Error('no answer in time')), patienceMs);
            }
            signal?.addEventListener('abort', onAbort);
            request.on('error', fail);
            request.on('socket', (socket) => {
                sofar = socket.bytesRead;
                socket.setKeepAlive(true, 10_000); // a server that is gone without a word is noticed in line
            });
            request.on('response', (response) => receive(response, request, { hold, raw }, answer, fail));
            request.end(data);
        });
    }
}

export class Gate extends Client {
    #renewals = new Map(); // by the permit's id: its timer, while the permit is renewed

    constructor({ gate = 'agents', ...more } = {}) {
        super(more);
        this.gate = gate;
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

    /** Waits for a permit that release() gives back, or the end of its lease. Without `hold` it has a lease, which is
     * renewed until the permit is released, close() is called or the process ends; not with `renew: false`. */
    async acquire(key, { flow, tenant, priority, cost, timeoutMs, leaseMs, hold = false, renew = true, signal } = {}) {
        const wish = {
            flow: flow || undefined, tenant: tenant || undefined, priority, cost, timeout_ms: whole(timeoutMs),
            lease_ms: whole(leaseMs), hold: hold || undefined,
        };
        const reply = await this._exchange({
            method: 'POST', path: this.#path(key, 'acquire'), wish, hold, signal,
            patienceMs: wish.timeout_ms === undefined ? undefined : wish.timeout_ms + PATIENCE_MS,
            unwanted: (late) => this.#giveBack(key, late),
        });
        const permit = new Permit(key, this._judge(reply, { key, flow }), hold ? reply.request : undefined);
        if (!hold && renew && permit.leaseMs !== null) {
            this.#keep(permit, permit.leaseMs / RENEWALS, performance.now() + permit.leaseMs);
        }
        return permit;
    }

    /** Gives back a permit, or the oldest of a key's flow: release('agentB', 'f'). */
    async release(...args) {
        const { key, flow, name, more, permit } = meant(args);
        this.#forget(permit?.id);
        const wish = { ...name, outcome: more.outcome ?? permit?.outcome, cost: more.cost ?? permit?.cost };
        try {
            await this._call('POST', this.#path(key, 'release'), wish, { key, flow });
        } finally {
            permit?._letGo();
        }
    }

    /** Its lease begins again; resolves to how long it is now. */
    async renew(...args) {
        const { key, flow, name, more, permit } = meant(args);
        const wish = { ...name, lease_ms: whole(more.leaseMs) };
        const said = await this._call('POST', this.#path(key, 'renew'), wish, { key, flow });
        if (permit !== undefined) {
            permit.leaseMs = said.lease_ms ?? null;
        }
        return said.lease_ms ?? null;
    }

    /** Such as { active: 2, waiting: 0, limit: 3, ... }. A key that is not in use has none, and no limit. */
    async counts(key) {
        return (await this.#look(key, this.#path(key))) ??
            { gate: this.gate, key, active: 0, waiting: 0, reserved: 0, limit: null };
    }

    /** The tickets that wait there, in order. */
    async line(key) {
        return (await this.#look(key, this.#path(key, 'line')))?.line ?? [];
    }

    /** What is decided at the gate from now on, as it happens; of these types, or of all: docs/reference/events.md. Throws
     * WeirUnreachable when the server ends.
     *
     *     for await (const event of await gate.events({ types: ['gate.throttle'] })) { ... } */
    async events({ types = [], signal } = {}) {
        signal?.throwIfAborted();
        const query = new URLSearchParams([['gate', this.gate], ...types.map((type) => ['type', type])]);
        const request = this._module.request({
            ...this._place, path: `${this._base}/events?${query}`, agent: false, headers: this._headers, signal,
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

    /** Closes idle connections and those that hold a permit, and renews leases no more. The gate may still be used. */
    close() {
        for (const timer of this.#renewals.values()) {
            clearTimeout(timer);
        }
        this.#renewals.clear();
        super.close();
    }

    // ---- calls

    #path(...segments) {
        return this._path('gates', this.gate, ...segments);
    }

    #forget(id) {
        clearTimeout(this.#renewals.get(id));
        this.#renewals.delete(id);
    }

    /** Renews the permit's lease, which ends then, after a while and again and again. */
    #keep(permit, waitMs, endMs) {
        this.#renewals.set(permit.id, setTimeout(async () => {
            const began = performance.now();
            let next;
            try {
                const leaseMs = await this.renew(permit) ?? permit.leaseMs;
                next = [leaseMs / RENEWALS, began + leaseMs];
            } catch (error) { // what is not answered is tried again until the lease is over
                const leftMs = endMs - performance.now();
                if (error instanceof WeirError && !(error instanceof WeirNotHeld) && leftMs > 0) {
                    next = [Math.max(50, Math.min(1000, leftMs / RENEWALS)), endMs];
                } else if (this.#renewals.has(permit.id)) {
                    permit._lose(error);
                }
            }
            if (next !== undefined && this.#renewals.has(permit.id)) {
                this.#keep(permit, ...next);
            } else {
                this.#renewals.delete(permit.id);
            }
        }, Math.min(waitMs, TIMER_MAX_MS)).unref());
    }

    /** What the API says of a key; undefined for one that was never used, if its gate is there. */
    async #look(key, path) {
        try {
            return await this._call('GET', path, undefined, { key });
        } catch (error) {
            if (error.status !== 404) {
                throw error;
            }
            const { gates = [] } = await this._call('GET', this._path('gates'));
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
}

/** What the server says of a job: `document` has all of it. */
export class Job {
    constructor(document) {
        this.document = document;
        this.id = document.id;
        this.queue = document.queue ?? '';
        this.state = document.state;
        this.attempts = document.attempts ?? 0;
        this.error = document.error;
    }

    /** Whether it has ended: done, failed or cancelled. */
    get over() {
        return ['done', 'failed', 'cancelled'].includes(this.state);
    }
}

/** The jobs of a running Weir. `queue` is that of jobs which name none. */
export class Jobs extends Client {
    constructor({ queue, ...more } = {}) {
        super(more);
        this.queue = queue;
    }

    /** Hands in a job: when this resolves, it is on disk. `body` is bytes, text, or what JSON can say. The same id with
     * the same body is the same job; one without an id gets one here, so that a call made again is the same job. */
    async submit(body, { id = `j-${randomUUID()}`, contentType, delayMs, timeoutMs, costMs, runAt, ...more } = {}) {
        const query = new URLSearchParams();
        const set = (name, value) => value === undefined || value === null || query.set(name, String(value));
        set('queue', more.queue ?? this.queue);
        for (const name of ['tenant', 'priority', 'attempts', 'key']) {
            set(name, more[name]);
        }
        for (const [name, ms] of Object.entries({ delay: delayMs, timeout: timeoutMs, cost: costMs })) {
            set(name, ms === undefined ? undefined : `${Math.ceil(ms)}ms`);
        }
        set('run_at', runAt instanceof Date ? runAt.toISOString() : runAt);
        const [data, kind] = typeof body === 'string' ? [body, 'text/plain; charset=utf-8'] :
            body instanceof Uint8Array ? [body, 'application/octet-stream'] : [JSON.stringify(body), 'application/json'];
        const text = query.toString();
        return this.#job('POST', this._path('submit', id) + (text && `?${text}`), { data, kind: contentType ?? kind });
    }

    /** How the job is; with `waitMs`, when it has ended, or after that time (at most 300 s). */
    async status(id, { waitMs, signal } = {}) {
        return this.#job('GET', waiting(this._path('status', id), waitMs), undefined, { waitMs, signal });
    }

    /** Waits until the job has ended; JobUnfinished after `timeoutMs`. */
    async wait(id, { timeoutMs, signal } = {}) {
        const began = performance.now();
        for (;;) {
            const leftMs = timeoutMs === undefined ? Infinity : timeoutMs - (performance.now() - began);
            const job = await this.status(id, { waitMs: Math.max(0, Math.min(JOB_WAIT_S * 1000, leftMs)), signal });
            if (job.over) {
                return job;
            }
            if (leftMs <= 0) {
                throw new JobUnfinished(`job ${id} is still ${job.state} after ${timeoutMs} ms`, { document: job.document });
            }
        }
    }

    /** What the job has made, as a Buffer. JobUnfinished if it has not ended; JobFailed if there is no result. */
    async result(id, { waitMs, signal } = {}) {
        const reply = await this.#ask('GET', waiting(this._path('result', id), waitMs), undefined, { waitMs, signal });
        if (reply.status === 200) {
            return reply.data;
        }
        if (reply.status === 422) {
            const job = new Job(this._judge({ ...reply, status: 200 }, {}));
            throw Object.assign(new JobFailed(`job ${job.id} is ${job.state}: ${job.error}`, {
                document: job.document, status: 422 }), { job });
        }
        throw refusal(reply, {});
    }

    /** Ends the job, also one that runs. */
    async cancel(id) {
        return this.#job('POST', this._path('cancel', id));
    }

    #ask(method, path, upload, { waitMs = 0, signal } = {}) {
        return this._exchange({ method, path, upload, raw: true, signal, patienceMs: PATIENCE_MS + waitMs });
    }

    async #job(...call) {
        const reply = await this.#ask(...call);
        return new Job(this._judge(reply.status === 202 ? { ...reply, status: 200 } : reply, {}));
    }
}

/** The server waits for a whole number of seconds, up to 300. */
function waiting(path, waitMs) {
    return waitMs > 0 ? `${path}?wait=${Math.max(1, Math.min(300, Math.ceil(waitMs / 1000)))}` : path;
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

/** Reads a reply: all of it; of a permit that is held, its first part. */
function receive(response, request, { hold, raw }, answer, fail) {
    const { statusCode: status, headers } = response;
    const whole = !(hold && status === 200);
    const pieces = [];
    let bytes = 0;
    const reply = () => {
        const data = Buffer.concat(pieces);
        return { status, headers, data, text: data.toString('utf8'), request };
    };
    response.on('data', (piece) => {
        pieces.push(piece);
        bytes += piece.length;
        if (bytes > BODY_MAX && !raw) {
            request.destroy(new Error('the reply is too long'));
        } else if (!whole && piece.at(-1) === 10) {
            answer(reply());
        }
    });
    response.on('error', fail); // as when it ends too early
    response.on('end', () => answer(reply()));
}
