// What the gates of weir-client.mjs and memory-gate.mjs share: errors, permits, how a permit is named.

// ---- errors when there is no permit

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

/** The job has not ended. */
export class JobUnfinished extends WeirRefused {}

/** The job failed or was cancelled, so it has no result; `job` is its status. */
export class JobFailed extends WeirRefused {}

const KINDS = {
    'urn:weir:line-timeout': WeirTimeout, 'urn:weir:not-held': WeirNotHeld, 'urn:weir:job-unfinished': JobUnfinished,
};

/** The object that a text is, or undefined. */
export function parse(text) {
    try {
        const said = JSON.parse(text);
        return typeof said === 'object' && said !== null && !Array.isArray(said) ? said : undefined;
    } catch {
        return undefined;
    }
}

/** The error that a reply is. */
export function refusal({ status, headers, text }, { key, flow }) {
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

    /** Fires when it is known to be over though it was not released: the connection that holds it has ended, or a
     * renewal has found that its lease is over or that an administrator has ended it. */
    get signal() {
        return this.#controller.signal;
    }

    /** For Gate: it is over. */
    _lose(reason) {
        this.#controller.abort(reason);
    }

    /** For Gate: ends the connection that holds it, if one does. */
    _letGo() {
        const request = this.#request;
        this.#request = undefined;
        request?.destroy();
    }
}

export function meant([permit, ...rest]) {
    if (permit instanceof Permit) {
        return { key: permit.key, name: { permit: permit.id }, more: rest[0] ?? {}, permit };
    }
    if (typeof rest[0] !== 'string' || rest[0] === '') {
        throw new TypeError('name a permit, or a key and a flow');
    }
    return { key: permit, flow: rest[0], name: { flow: rest[0] }, more: rest[1] ?? {} };
}
