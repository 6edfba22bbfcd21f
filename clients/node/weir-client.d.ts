/* Types of weir-client.mjs, which says what each call does. */

export interface GateOptions {
    /** Where the server's `api` listens; http://127.0.0.1:7070 unless given. */
    api?: string;
    /** The gate's name in the config; "agents" unless given. */
    gate?: string;
    /** One of `api_tokens`. */
    token?: string;
}

export interface Wish {
    flow?: string;
    tenant?: string;
    priority?: 'high' | 'normal' | 'low';
    cost?: number;
    /** How long to wait in line; 0 not at all; unless given, as the gate says. */
    timeoutMs?: number;
    leaseMs?: number;
    /** Whether the connection is the permit: true in run(), false in acquire(). */
    hold?: boolean;
    /** Leaves the line when it fires; the call then rejects with its reason. */
    signal?: AbortSignal;
}

export type Outcome = 'success' | 'rate_limit' | 'soft_loss' | 'client_error' | 'cancelled';

export interface Result {
    outcome?: Outcome;
    /** What it really cost. */
    cost?: number;
}

export interface Counts {
    gate?: string;
    key: string;
    active: number;
    waiting: number;
    reserved: number;
    /** null: none, or nobody uses the key. */
    limit: number | null;
    [more: string]: unknown;
}

export interface Waiting {
    position: number;
    ahead: number;
    flow: string;
    tenant: string;
    priority: string;
    binding: string;
    [more: string]: unknown;
}

export class Permit {
    private constructor();
    readonly key: string;
    readonly agent: string;
    readonly id: string;
    readonly flow: string;
    readonly waitedMs: number;
    readonly active: number;
    readonly waiting: number;
    readonly limit: number | null;
    readonly leaseMs: number | null;
    /** Fires when the connection that holds it ends, and the permit with it. Never without `hold`. */
    readonly signal: AbortSignal;
    outcome: Outcome | undefined;
    cost: number | undefined;
}

/** docs/reference/events.md names the fields of each type. */
export interface WeirEvent {
    type: string;
    /** In milliseconds since 1970. */
    timestamp: number;
    [field: string]: unknown;
}

export class Gate {
    constructor(options?: GateOptions);
    readonly api: string;
    readonly gate: string;
    run<T>(key: string, work: (permit: Permit) => T | Promise<T>): Promise<T>;
    run<T>(key: string, wish: Wish, work: (permit: Permit) => T | Promise<T>): Promise<T>;
    acquire(key: string, wish?: Wish): Promise<Permit>;
    release(permit: Permit, result?: Result): Promise<void>;
    release(key: string, flow: string, result?: Result): Promise<void>;
    /** Resolves to how long the lease is now; null: there is none. */
    renew(permit: Permit, lease?: { leaseMs?: number }): Promise<number | null>;
    renew(key: string, flow: string, lease?: { leaseMs?: number }): Promise<number | null>;
    counts(key: string): Promise<Counts>;
    line(key: string): Promise<Waiting[]>;
    events(options?: { types?: string[]; signal?: AbortSignal }): Promise<AsyncGenerator<WeirEvent, void, void>>;
    close(): void;
}

export class WeirError extends Error {
    readonly document: Record<string, unknown>;
    readonly status: number;
    /** Such as "urn:weir:line-timeout"; empty if the server said nothing. */
    readonly type: string;
    readonly title: string;
    readonly detail: string;
    readonly gate: string | undefined;
    readonly key: string | undefined;
    readonly agent: string | undefined;
    readonly flow: string | undefined;
    readonly tenant: string | undefined;
    readonly active: number | undefined;
    readonly waiting: number | undefined;
    readonly limit: number | null | undefined;
    readonly waitedMs: number | undefined;
    readonly timeoutMs: number | null | undefined;
    readonly retryAfterMs: number | undefined;
}
export class WeirRefused extends WeirError {}
export class WeirTimeout extends WeirRefused {}
export class WeirNotHeld extends WeirRefused {}
export class WeirUnreachable extends WeirError {}
