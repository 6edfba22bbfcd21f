/* Types of weir-client.mjs and memory-gate.mjs, which say what each call does. */
/** What node:tls takes, of which these are the usual ones. */
export interface TlsOptions {
    ca?: string | Uint8Array | (string | Uint8Array)[];
    cert?: string | Uint8Array;
    key?: string | Uint8Array;
    servername?: string;
    [more: string]: unknown;
}

/** A Buffer of Node.js. */
export type Bytes = Uint8Array & { toString(encoding?: string): string };

export interface ClientOptions {
    /** Where the server's `api` listens: http://HOST:PORT, https://HOST or unix:/path; unless given, WEIR_API of the
     * environment, else http://127.0.0.1:7070. */
    api?: string;
    /** One of `api_tokens`; unless given, WEIR_TOKEN of the environment. */
    token?: string;
    /** For https: what node:tls takes, such as { ca }. */
    tls?: TlsOptions;
}

export interface GateOptions extends ClientOptions {
    /** The gate's name in the config; "agents" unless given. */
    gate?: string;
}

export interface JobsOptions extends ClientOptions {
    /** The queue of jobs which name none; unless given, the server's first. */
    queue?: string;
}

export interface MemoryGateOptions {
    /** Permits for each key; null: unlimited; 3 unless given. */
    limit?: number | null;
    /** How long to wait in line; 30 s unless given. */
    timeoutMs?: number;
    /** Keys with limits of their own. */
    limits?: Record<string, number | null>;
    gate?: string;
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
    /** Whether the lease of a permit without `hold` is renewed; true unless given. */
    renew?: boolean;
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
    /** null: none, or the key is not in use. */
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
    leaseMs: number | null;
    /** Fires when it is known to be over though it was not released: its connection has ended, or its lease. */
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

/** The calls of Gate, inside the process, for tests. */
export class MemoryGate {
    constructor(options?: MemoryGateOptions);
    readonly api: string;
    readonly gate: string;
    run<T>(key: string, work: (permit: Permit) => T | Promise<T>): Promise<T>;
    run<T>(key: string, wish: Wish, work: (permit: Permit) => T | Promise<T>): Promise<T>;
    acquire(key: string, wish?: Wish): Promise<Permit>;
    release(permit: Permit, result?: Result): Promise<void>;
    release(key: string, flow: string, result?: Result): Promise<void>;
    renew(permit: Permit, lease?: { leaseMs?: number }): Promise<number | null>;
    renew(key: string, flow: string, lease?: { leaseMs?: number }): Promise<number | null>;
    counts(key: string): Promise<Counts>;
    line(key: string): Promise<Waiting[]>;
    events(options?: { types?: string[]; signal?: AbortSignal }): Promise<AsyncGenerator<WeirEvent, void, void>>;
    close(): void;
}

export interface Submission {
    /** Of letters, digits, '.', '_' and '-'; unless given, a random one. */
    id?: string;
    queue?: string;
    tenant?: string;
    priority?: 'high' | 'normal' | 'low';
    delayMs?: number;
    runAt?: Date | string | number;
    attempts?: number;
    /** Of one attempt. */
    timeoutMs?: number;
    /** Jobs with the same key run at most the queue's `per_key` at once. */
    key?: string;
    /** How long it is expected to run. */
    costMs?: number;
    contentType?: string;
}

export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'cancelled';

export class Job {
    private constructor();
    readonly document: Record<string, unknown>;
    readonly id: string;
    readonly queue: string;
    readonly state: JobState;
    readonly attempts: number;
    readonly error: string | undefined;
    readonly over: boolean;
}

export class Jobs {
    constructor(options?: JobsOptions);
    readonly api: string;
    readonly queue: string | undefined;
    submit(body: string | Uint8Array | object, submission?: Submission): Promise<Job>;
    status(id: string, options?: { waitMs?: number; signal?: AbortSignal }): Promise<Job>;
    wait(id: string, options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<Job>;
    result(id: string, options?: { waitMs?: number; signal?: AbortSignal }): Promise<Bytes>;
    cancel(id: string): Promise<Job>;
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
export class JobUnfinished extends WeirRefused {}
export class JobFailed extends WeirRefused {
    readonly job: Job;
}
