// A gate inside the process, with the calls of Gate, for tests of programs that are handed a gate. It counts, waits in
// order and nests by flow as the server does. It knows no tenants' shares, priorities, costs or rates, and leases do not
// end.
import { randomUUID } from 'node:crypto';
import { Permit, WeirError, meant, refusal } from './internal.mjs';

const DEPTH = 5; // how many permits of a flow share a place, as the server has it
const TIMER_MAX_MS = 2 ** 31 - 1;

export class MemoryGate {
    #keys = new Map();
    #readers = new Set();
    #limit;
    #limits;
    #timeoutMs;

    /** `limit` permits for each key (null: unlimited, but counted), other limits for some in `limits`. */
    constructor({ limit = 3, timeoutMs = 30_000, limits = {}, gate = 'agents' } = {}) {
        this.gate = gate;
        this.api = 'memory:';
        this.#limit = limit;
        this.#limits = limits;
        this.#timeoutMs = timeoutMs;
    }

    /** As Gate.run(). */
    async run(key, ...rest) {
        const work = rest.pop();
        const permit = await this.acquire(key, rest[0]);
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

    /** As Gate.acquire(). */
    async acquire(key, { flow = '', tenant = '', timeoutMs = this.#timeoutMs, signal } = {}) {
        signal?.throwIfAborted();
        const of = this.#of(key);
        const waiter = { key, flow, tenant, timeoutMs, began: performance.now() };
        const sharing = flow === '' ? undefined : of.sharing.get(`${flow}\n${tenant}`);
        if (sharing >= DEPTH) {
            throw this.#refuse(waiter, 508, 'too-deep',
                'The flow has as many permits here as it may. Look for callers that call each other in a circle.');
        }
        if (sharing !== undefined || (of.line.length === 0 && (of.limit === null || of.active < of.limit))) {
            return this.#give(waiter);
        }
        this.#tell('gate.throttle', waiter);
        return this.#wait(of, waiter, signal);
    }

    /** As Gate.release(). */
    async release(...args) {
        const { key, permit } = this.#find(args);
        const of = this.#of(key);
        of.permits.delete(permit.id);
        const left = permit.flow === '' ? 0 : of.sharing.get(permit.place) - 1;
        of.sharing.set(permit.place, left);
        if (left > 0) {
            return;
        }
        of.sharing.delete(permit.place);
        of.active -= 1;
        while (of.line.length > 0 && (of.limit === null || of.active < of.limit)) {
            const waiter = of.line.shift();
            waiter.admit(this.#give(waiter));
        }
    }

    /** As Gate.renew(), but there are no leases. */
    async renew(...args) {
        this.#find(args);
        return null;
    }

    /** As Gate.counts(). */
    async counts(key) {
        const { active } = this.#of(key);
        return { gate: this.gate, key, reserved: active, ...this.#sums(key) };
    }

    /** As Gate.line(). */
    async line(key) {
        return this.#of(key).line.map(({ flow, tenant }, index) => ({
            position: index + 1, ahead: index, flow, tenant, priority: 'normal', binding: index === 0 ? 'limit' : 'turn',
        }));
    }

    /** As Gate.events(): gate.throttle and gate.timeout, from now on. */
    async events({ types = [], signal } = {}) {
        signal?.throwIfAborted();
        const reader = { types, events: [], wake: () => {} };
        this.#readers.add(reader);
        const stop = new Promise((_, reject) => {
            signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
        });
        stop.catch(() => {});
        const readers = this.#readers;
        return (async function* each() {
            try {
                for (;;) {
                    while (reader.events.length > 0) {
                        yield reader.events.shift();
                    }
                    await Promise.race([stop, new Promise((wake) => { reader.wake = wake; })]);
                }
            } finally {
                readers.delete(reader);
            }
        })();
    }

    /** As Gate.close(); there is nothing to do. */
    close() {}

    #of(key) {
        if (!this.#keys.has(key)) {
            const limit = key in this.#limits ? this.#limits[key] : this.#limit;
            this.#keys.set(key, { limit, active: 0, permits: new Map(), sharing: new Map(), line: [] });
        }
        return this.#keys.get(key);
    }

    #sums(key) {
        const { active, line, limit } = this.#of(key);
        return { active, waiting: line.length, limit };
    }

    #give({ key, flow, tenant, began }) {
        const of = this.#of(key);
        const id = randomUUID().replaceAll('-', '');
        const place = flow === '' ? id : `${flow}\n${tenant}`;
        const sharing = of.sharing.get(place) ?? 0;
        of.active += sharing === 0 ? 1 : 0;
        of.sharing.set(place, sharing + 1);
        of.permits.set(id, { id, flow, place });
        return new Permit(key, {
            permit: id, flow, waited_ms: Math.floor(performance.now() - began), lease_ms: null, ...this.#sums(key),
        });
    }

    #wait(of, waiter, signal) {
        return new Promise((resolve, reject) => {
            let timer;
            const end = (settle, value) => {
                clearTimeout(timer);
                signal?.removeEventListener('abort', onAbort);
                settle(value);
            };
            const leave = () => of.line.splice(of.line.indexOf(waiter), 1);
            const onAbort = () => {
                leave();
                end(reject, signal.reason);
            };
            waiter.admit = (permit) => end(resolve, permit);
            of.line.push(waiter);
            signal?.addEventListener('abort', onAbort);
            if (waiter.timeoutMs <= TIMER_MAX_MS) {
                timer = setTimeout(() => {
                    leave();
                    this.#tell('gate.timeout', waiter);
                    end(reject, this.#refuse(waiter, 429, 'line-timeout',
                        `Timed out in line after ${waiter.timeoutMs / 1000} s. Try again later.`));
                }, waiter.timeoutMs);
            }
        });
    }

    /** The permit that is meant; by a flow's name, its oldest. */
    #find(args) {
        const { key, flow, name } = meant(args);
        const permits = this.#of(key).permits;
        const permit = name.permit === undefined ? [...permits.values()].find((held) => held.flow === flow) :
            permits.get(name.permit);
        if (permit === undefined) {
            throw refusal({ status: 409, headers: {}, text: JSON.stringify({
                type: 'urn:weir:not-held', status: 409, detail: 'No such permit is held.' }) }, { key, flow });
        }
        return { key, permit };
    }

    #tell(type, { key, flow, tenant }) {
        const event = { type, gate: this.gate, key, flow, tenant, timestamp: Date.now(), ...this.#sums(key) };
        for (const reader of this.#readers) {
            if (reader.types.length === 0 || reader.types.includes(type)) {
                reader.events.push(event);
                reader.wake();
            }
        }
    }

    #refuse({ key, flow, tenant, timeoutMs, began }, status, name, detail) {
        return refusal({ status, headers: {}, text: JSON.stringify({
            type: `urn:weir:${name}`, title: '', status, detail, gate: this.gate, key, flow, tenant, ...this.#sums(key),
            waited_ms: Math.floor(performance.now() - began), timeout_ms: timeoutMs,
        }) }, { key, flow });
    }
}
