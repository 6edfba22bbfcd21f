"""What is measured of requests to LLMs, against what happened; and what /metrics says of their lanes, against the API."""
import asyncio
import gzip
import json
import pathlib
import re

import pytest
from raw import ask, connect, reply, request, run, upstream
from test_llm import (DONE, JSON, SSE, TEXTS, USAGE, chat, chunk, chunked, completion, event, llm, post, quiet, refusal,
                      shown, stream_head, streams, turns)
from test_metrics import Metrics, check_with_promtool, fetch, go_away, measure, read
from test_mock import mock
from weir import until, weir

WAITS = ['0.005', '0.01', '0.02', '0.05', '0.1', '0.2', '0.5', '1', '+Inf']
LATENCIES = ['0.05', '0.1', '0.2', '0.3', '0.5', '1', '2', '5', '10', '+Inf']
LONG_WAITS = [*WAITS[:-1], '2', '5', '10', '30', '60', '120', '300', '600', '+Inf']
LONG_LATENCIES = [*LATENCIES[:-1], '30', '60', '120', '300', '600', '1200', '1800', '+Inf']
HISTOGRAMS = {'llm_queue_wait_seconds': WAITS, 'llm_latency_first_token_seconds': LATENCIES,
              'llm_latency_total_seconds': LATENCIES}
# Each with the name that dashboards for LLM gateways know.
LONG_HISTOGRAMS = {'weir_llm_queue_wait_seconds': (LONG_WAITS, 'llm_queue_wait_seconds'),
                   'weir_llm_first_token_seconds': (LONG_LATENCIES, 'llm_latency_first_token_seconds'),
                   'weir_llm_duration_seconds': (LONG_LATENCIES, 'llm_latency_total_seconds')}
OTHER_NAMES = {'weir_llm_window': 'llm_cc_cwnd', 'weir_llm_inflight': 'llm_cc_inflight',
               'weir_llm_token_rate': 'llm_tr_rate', 'weir_llm_token_level': 'llm_tr_bucket',
               'weir_llm_token_debt': 'llm_tr_debt', 'weir_llm_errors_total': 'llm_errors_total',
               'weir_llm_retries_total': 'llm_retries_total'}
GAUGES = ('llm_cc_cwnd', 'llm_cc_inflight', 'llm_tr_rate', 'llm_tr_bucket', 'llm_tr_debt')
SIGNALS = ('rate_limit', 'soft_loss', 'client_error', 'cancelled')


class Series:
    """All that is measured of one provider, model and tenant."""

    def __init__(self, metrics, provider='lane0', model='gpt-4o', tenant='_none'):
        labels = {'provider': provider, 'model': model, 'tenant': tenant}
        self.errors = {signal: metrics.get('llm_errors_total', signal=signal, **labels) for signal in SIGNALS}
        self.known = None not in self.errors.values()
        self.errors = {signal: count for signal, count in self.errors.items() if count}
        self.retries = metrics.get('llm_retries_total', **labels)
        self.tokens = {kind: metrics.get('weir_llm_tokens_total', kind=kind, **labels)
                       for kind in ('input', 'cached', 'output')}
        self.waits, self.firsts, self.totals = (metrics.get(f'{name}_count', **labels) for name in HISTOGRAMS)
        self.first_seconds, self.total_seconds = (metrics.get(f'llm_latency_{name}_seconds_sum', **labels)
                                                  for name in ('first_token', 'total'))

    def check(self, waits, firsts, totals, retries=0, **errors):
        assert self.known
        assert (self.waits, self.firsts, self.totals) == (waits, firsts, totals)
        assert (self.retries, self.errors) == (retries, errors)


def check_histograms(metrics):
    """Each has all of its bounds; what is up to one is also up to the next."""
    for name, bounds in HISTOGRAMS.items():
        for labels, count in metrics.all(f'{name}_count').items():
            buckets = [metrics.get(f'{name}_bucket', le=bound, **dict(labels)) for bound in bounds]
            assert buckets == sorted(buckets) and buckets[-1] == count
            assert metrics.get(f'{name}_sum', **dict(labels)) is not None
        assert len(metrics.all(f'{name}_bucket')) == len(bounds) * len(metrics.all(f'{name}_count'))
    for name, (bounds, old) in LONG_HISTOGRAMS.items():
        assert metrics.all(f'{name}_count') == metrics.all(f'{old}_count')
        assert metrics.all(f'{name}_sum') == metrics.all(f'{old}_sum')
        for labels, count in metrics.all(f'{name}_count').items():
            buckets = [metrics.get(f'{name}_bucket', le=bound, **dict(labels)) for bound in bounds]
            assert buckets == sorted(buckets) and buckets[-1] == count
            assert all(metrics.get(f'{name}_bucket', le=bound, **dict(labels)) ==
                       metrics.get(f'{old}_bucket', le=bound, **dict(labels)) for bound in HISTOGRAMS[old])
    assert all(metrics.all(name) == metrics.all(old) for name, old in OTHER_NAMES.items())


async def valid(gateway):
    body = await fetch(gateway)
    check_with_promtool(body)
    metrics = Metrics(body)
    check_histograms(metrics)
    return metrics


async def ask_llm(gateway, document=None, *fields):
    return await ask(gateway.port, post(document or chat(), *fields), 'POST')


# ---- what happened

@run
async def test_a_stream_and_a_reply_in_one_piece_are_measured():
    text, slow = asyncio.Event(), asyncio.Event()

    async def serve(wire, message):
        if json.loads(message.body).get('stream'):
            await wire.send(stream_head())
            await text.wait()
            await wire.send(chunked(*TEXTS))
            await slow.wait()
            await wire.send(chunked(USAGE, DONE), b'0\r\n\r\n')
        else:
            await wire.send(reply(completion(prompt_tokens=100, completion_tokens=2,
                                             prompt_tokens_details={'cached_tokens': 64}), JSON))
    async with upstream(serve) as server, llm(server) as gateway:
        before = await valid(gateway)
        assert before.all('llm_retries_total') == {} and before.types['llm_retries_total'] == 'counter'
        assert before.types['llm_cc_cwnd'] == 'gauge' and before.types['llm_tr_bucket'] == 'untyped'
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True), 'X-Tenant: acme'))
            assert (await wire.head()).status == 200
            # The head is no token.
            Series(await valid(gateway), tenant='acme').check(waits=1, firsts=0, totals=0)
            await asyncio.sleep(0.06)  # the time itself is what is measured
            text.set()
            await wire.reader.readuntil(b'data: ')
            # While it streams: how long it waited and when the first token came are known, the rest is not.
            under_way = Series(await valid(gateway), tenant='acme')
            under_way.check(waits=1, firsts=1, totals=0)
            assert under_way.tokens == {'input': 0, 'cached': 0, 'output': 0}
            await asyncio.sleep(0.06)  # the time itself is what is measured
            slow.set()
            await wire.reader.readuntil(b'0\r\n\r\n')
        await quiet(gateway)
        done = Series(await valid(gateway), tenant='acme')
        done.check(waits=1, firsts=1, totals=1)
        assert done.tokens == {'input': 9, 'cached': 0, 'output': 3}
        assert 0.05 < done.first_seconds < done.total_seconds and done.total_seconds > 0.1
        assert (await ask_llm(gateway, None, 'X-Tenant: acme')).status == 200
        done = Series(await valid(gateway), tenant='acme')
        done.check(waits=2, firsts=1, totals=2)
        assert done.tokens == {'input': 9 + 36, 'cached': 64, 'output': 5}
        assert len((await read(gateway)).all('llm_retries_total')) == 1


@run
async def test_every_attempt_is_counted_for_the_provider_it_went_to():
    async with upstream(turns(refusal('429 Too Many Requests', 'retry-after: 1'))) as first, \
            upstream(reply(completion(), JSON)) as second, llm(first, second) as gateway:
        assert (await ask_llm(gateway)).status == 200
        metrics = await valid(gateway)
        Series(metrics, 'lane0').check(waits=1, firsts=0, totals=0, retries=1, rate_limit=1)
        Series(metrics, 'lane1').check(waits=1, firsts=0, totals=1)
        assert Series(metrics, 'lane0').tokens == {'input': 0, 'cached': 0, 'output': 0}
        assert Series(metrics, 'lane1').tokens == {'input': 9, 'cached': 0, 'output': 2}


@run
async def test_a_refusal_that_reaches_the_client_was_no_retry():
    async with upstream(refusal('429 Too Many Requests', 'retry-after-ms: 5')) as server, llm(server) as gateway:
        assert (await ask_llm(gateway)).status == 429
        Series(await valid(gateway)).check(waits=3, firsts=0, totals=0, retries=2, rate_limit=3)


@pytest.mark.parametrize('status, signal', [('400 Bad Request', 'client_error'), ('500 Oh', 'soft_loss'),
                                            ('404 Not Found', 'client_error')])
@run
async def test_errors_are_told_apart(status, signal):
    async with upstream(refusal(status)) as server, llm(server) as gateway:
        assert (await ask_llm(gateway)).status == int(status[:3])
        Series(await valid(gateway)).check(waits=1, firsts=0, totals=0, **{signal: 1})


@run
async def test_a_server_that_is_not_there_or_does_not_answer_is_a_loss():
    async def hang(wire):
        await wire.ended()
    async with upstream(turns(hang)) as server, \
            llm(server, more='timeouts: { first_byte: 50ms }', route='retries: 1') as gateway:
        assert (await ask_llm(gateway)).status == 504
        Series(await valid(gateway)).check(waits=2, firsts=0, totals=0, retries=1, soft_loss=2)
    async with llm(type('Nobody', (), {'url': 'http://127.0.0.1:1'})) as gateway:
        assert (await ask_llm(gateway)).status == 502
        Series(await valid(gateway)).check(waits=1, firsts=0, totals=0, soft_loss=1)


@run
async def test_an_error_in_the_middle_of_a_stream_is_one():
    error = b'data: {"error":{"message":"Rate limit reached","type":"rate_limit_error","code":"rate_limit_exceeded"}}\n\n'
    async with upstream(streams(TEXTS[0], error)) as server, llm(server) as gateway:
        assert (await ask_llm(gateway, chat(stream=True))).status == 200
        await quiet(gateway)
        Series(await valid(gateway)).check(waits=1, firsts=1, totals=0, rate_limit=1)


@run
async def test_a_provider_that_dies_in_the_middle_of_a_stream_is_a_loss():
    async def serve(wire, message):
        await wire.send(stream_head(), chunked(*TEXTS))
        wire.abort()
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True)))
            await wire.head()
            await wire.ended()
        await quiet(gateway)
        Series(await valid(gateway)).check(waits=1, firsts=1, totals=0, soft_loss=1)
        assert (await control_of(gateway))['lost'] == 1


@run
async def test_a_client_that_leaves_is_told_apart_and_what_it_saw_was_used():
    async def serve(wire, message):
        await wire.send(stream_head(), chunked(*TEXTS, chunk('x' * 400)))
        await wire.ended()
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True, text='y' * 400)))
            await wire.head()
            await until(lambda: len(server.seen) == 1, 'it is there')
            await wire.exactly(len(shown(*TEXTS)))
        await quiet(gateway)
        left = Series(await valid(gateway))
        left.check(waits=1, firsts=1, totals=0, cancelled=1)
        assert left.tokens['input'] == 101  # a token for four characters
        assert 100 <= left.tokens['output'] <= 110


@run
async def test_where_a_reply_tells_nothing_its_input_counts_as_expected_in_all_books():
    """Be it compressed, or its client gone before it came; but not if all it tells is an error."""
    async def never(wire):
        await wire.ended()
    packed = reply(gzip.compress(completion()), JSON, 'Content-Encoding: gzip')
    failed = reply(event({'error': {'type': 'overloaded_error'}}), SSE)
    async with upstream(turns(packed, failed, never)) as server, llm(server) as gateway:
        text = chat(text='y' * 400)
        for tokens in (101, 101):
            assert (await ask_llm(gateway, text)).status == 200
            assert Series(await valid(gateway)).tokens == {'input': tokens, 'cached': 0, 'output': 0}
        async with connect(gateway.port) as wire:
            await wire.send(post(text))
            await until(lambda: len(server.seen) == 3, 'all of it is there')
        await quiet(gateway)
        assert Series(await valid(gateway)).tokens == {'input': 202, 'cached': 0, 'output': 0}
        _, usage = await gateway.ask_api('/usage')
        row, = usage['usage']
        assert (row['requests'], row['input_tokens'], row['output_tokens']) == (3, 202, 0)


@run
async def test_who_leaves_the_line_or_is_turned_away_there_never_went_anywhere():
    async def hold(wire, message):
        await wire.ended()
    gate = 'limit: 1, line: { max: 1, timeout: 20s }'
    async with upstream(hold) as server, llm(server, gate=gate) as gateway:
        async with connect(gateway.port) as inside, connect(gateway.port) as waiting:
            await inside.send(post(chat()))
            await gateway.until('gpt-4o', 'llm', active=1)
            await waiting.send(post(chat()))
            await gateway.until('gpt-4o', 'llm', waiting=1)
            assert (await ask_llm(gateway)).status == 429
            waiting.reset()
            await gateway.until('gpt-4o', 'llm', waiting=0)
        await quiet(gateway)
        Series(await valid(gateway)).check(waits=1, firsts=0, totals=0, cancelled=1)


@run
async def test_a_wait_is_in_the_bucket_of_its_length():
    let_go = asyncio.Event()

    async def hold(wire, message):
        await let_go.wait()
        await wire.send(reply(completion(), JSON))
    async with upstream(hold) as server, llm(server, gate='limit: 1') as gateway:
        async with connect(gateway.port) as inside, connect(gateway.port) as waiting:
            await inside.send(post(chat()))
            await gateway.until('gpt-4o', 'llm', active=1)
            await waiting.send(post(chat()))
            await gateway.until('gpt-4o', 'llm', waiting=1)
            await asyncio.sleep(0.06)
            let_go.set()
            for wire in (inside, waiting):
                assert (await wire.message()).status == 200
        metrics = await valid(gateway)
        labels = {'provider': 'lane0', 'model': 'gpt-4o', 'tenant': '_none'}
        seconds = metrics.get('llm_queue_wait_seconds_sum', **labels)
        assert seconds > 0.05
        buckets = [metrics.get('llm_queue_wait_seconds_bucket', le=bound, **labels) for bound in WAITS]
        assert buckets == [1 + (seconds <= float(bound)) for bound in WAITS]


@run
async def test_a_route_without_a_gate_is_measured_but_for_the_line():
    async with upstream(streams(*TEXTS, USAGE, DONE)) as server:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: {{ only: {{ url: "{server.url}" }} }}
routes: [{{ match: /, llm: openai, upstream: only }}]
'''
        async with weir(config) as gateway:
            assert (await ask_llm(gateway, chat(stream=True))).status == 200
            metrics = await valid(gateway)
            Series(metrics, 'only').check(waits=0, firsts=1, totals=1)
            assert all(metrics.all(name) == {} for name in GAUGES)


@run
async def test_counts_are_sums_over_all_threads_and_go_on_across_a_reload():
    async with upstream(reply(completion(), JSON)) as server:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 4
upstreams: {{ lane0: {{ url: "{server.url}" }} }}
gates: {{ llm: {{ limit: 50 }} }}
routes: [{{ match: /, llm: openai, key: "{{model}}", gate: llm, upstream: lane0 }}]
'''
        async with weir(config) as gateway:
            for _ in range(40):
                assert (await ask_llm(gateway)).status == 200
            Series(await valid(gateway)).check(waits=40, firsts=0, totals=40)
            await gateway.reload(('limit: 50', 'limit: 60'))
            assert (await ask_llm(gateway)).status == 200
            Series(await valid(gateway)).check(waits=41, firsts=0, totals=41)


@run
async def test_the_books_of_an_emulated_provider_say_the_same():
    flags = ('--llm=openai', '--fail=10', '--fail-status=500', '--first-token=2ms', '--pace=none', '--output=20',
             '--concurrency=5', '--seed=7')
    tenants = ('a', 'b', 'c')
    async with mock(*flags) as provider, llm(provider, gate='line: { max: 1000 }') as gateway:
        async def caller(number):
            async with connect(gateway.port) as wire:
                for i in range(6):
                    tenant = tenants[(number + i) % 3]
                    await wire.send(post(chat(stream=i % 2 == 0), f'X-Tenant: {tenant}', f'X-Mock-Tenant: {tenant}'))
                    assert (await wire.message()).status in (200, 429, 500)
        await asyncio.gather(*(caller(number) for number in range(10)))
        await quiet(gateway)
        books = await provider.stats()
        metrics = await valid(gateway)
        of_tenants = [Series(metrics, tenant=tenant) for tenant in tenants]
        assert sum(each.waits for each in of_tenants) == books['requests']
        assert sum(each.totals for each in of_tenants) == books['served'] > 0
        assert sum(each.errors.get('rate_limit', 0) for each in of_tenants) == books['refused']
        assert sum(each.errors.get('soft_loss', 0) for each in of_tenants) == books['failed'] > 0
        assert sum(each.retries for each in of_tenants) == books['requests'] - 60
        assert sum(each.tokens['input'] for each in of_tenants) == books['tokens_input']
        assert sum(each.tokens['output'] for each in of_tenants) == books['tokens_output']
        control = await control_of(gateway)
        assert (control['refused'], control['lost']) == (books['refused'], books['failed'])
        assert control['first_token_ms'] is None or control['first_token_ms'] > 1


# ---- names

@run
async def test_hostile_names_are_labels_and_nothing_else():
    models = ['"', '\\', '\n', 'a",tenant="x', '"} 1\nllm_retries_total{provider="x"} 7\n', '\x7f', '\u4e2d\U0001f600',
              'm' * 255, '\\' * 255, '_other', '_none']
    tenants = {'a"b': b'a"b', '\\': b'\\', '_other': b'\xff\xfe', '\xe9': '\xe9'.encode(), 't' * 255: b't' * 255}
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        for model in models:
            assert (await ask_llm(gateway, chat(model))).status == 200
        for raw in tenants.values():
            assert (await ask_llm(gateway, chat('m'), 'X-Tenant: ' + raw.decode('latin-1'))).status == 200
        assert (await ask(gateway.port, request('/v1/models'))).status == 200
        metrics = await valid(gateway)
        for model in models:
            expected = 2 if model == '_none' else 1  # with the list of models, which has none
            Series(metrics, model=model).check(waits=expected, firsts=0, totals=expected)
        for tenant in tenants:
            Series(metrics, model='m', tenant=tenant).check(waits=1, firsts=0, totals=1)
        assert sum(metrics.all('llm_latency_total_seconds_count').values()) == len(models) + len(tenants) + 1


async def make_series(gateway, count, model=None, first=0):
    """Requests of so many tenants, or for so many models."""
    async with connect(gateway.port) as wire:
        for start in range(first, first + count, 100):
            batch = range(start, min(start + 100, first + count))
            await wire.send(b''.join(post(chat(model or f'model-{i}'), f'X-Tenant: tenant-{i if model else 0}')
                                     for i in batch))
            for _ in batch:
                assert (await wire.message()).status == 200


@run
async def test_of_many_names_so_many_have_series_and_none_is_lost():
    async with upstream(reply(completion(), JSON)) as server, llm(server, gate='limit: 50') as gateway:
        await make_series(gateway, 896, 'gpt-4o')
        assert (await fetch(gateway)).count(b'\nllm_retries_total{') == 896
        await make_series(gateway, 100, 'gpt-4o', first=896)
        metrics = Metrics(await fetch(gateway))
        Series(metrics, tenant='_other').check(waits=100, firsts=0, totals=100)
        Series(metrics, tenant='tenant-895').check(waits=1, firsts=0, totals=1)
        await make_series(gateway, 300)
        metrics = await valid(gateway)
        assert len(metrics.all('llm_retries_total')) <= 1024
        assert Series(metrics, model='_other', tenant='_other').totals > 100
        assert sum(metrics.all('llm_latency_total_seconds_count').values()) == 896 + 100 + 300


# ---- lanes

def gauges(metrics, provider='lane0', model='gpt-4o'):
    return {name: metrics.get(name, provider=provider, model=model, tenant='_all') for name in GAUGES}


async def control_of(gateway, lane=0, key='gpt-4o', gate='llm'):
    _, said = await gateway.ask_api(f'/gates/{gate}/{key}')
    return said['lanes'][lane]['control']


@run
async def test_lanes_tell_what_the_api_says_of_them():
    async def hold(wire, message):
        await wire.send(stream_head(), chunked(TEXTS[0]))
        await wire.ended()
    async with upstream(hold) as first, upstream(hold) as second, \
            llm(first, second, gate='limit: {}, tokens: { rate: { start: 500/s } }') as gateway:
        async with connect(gateway.port) as one, connect(gateway.port) as other:
            for wire in (one, other):
                await wire.send(post(chat(stream=True)))
                assert (await wire.head()).status == 200
            metrics, control = await valid(gateway), await control_of(gateway)
            told = gauges(metrics)
            assert told['llm_cc_cwnd'] == control['window'] >= 4
            assert told['llm_cc_inflight'] == 2
            assert told['llm_tr_rate'] == control['rate'] > 0
            assert told['llm_tr_bucket'] <= control['bucket']  # which fills
            assert told['llm_tr_debt'] == 0
            assert gauges(metrics, 'lane1')['llm_cc_inflight'] == 0


QUOTAS = ['x-ratelimit-limit-requests: 500', 'x-ratelimit-remaining-requests: 499', 'x-ratelimit-reset-requests: 120ms',
          'x-ratelimit-limit-tokens: 30000', 'x-ratelimit-remaining-tokens: 29900', 'x-ratelimit-reset-tokens: 200ms']


@run
async def test_where_stated_quotas_rule_they_are_the_rate():
    async with upstream(reply(completion(), JSON, *QUOTAS)) as server, llm(server) as gateway:
        assert (await ask_llm(gateway)).status == 200
        control = await control_of(gateway)
        assert control['rate_active'] is False
        quotas = {quota['unit']: quota for quota in control['quotas']}
        assert quotas.keys() == {'requests', 'cost'}
        assert (quotas['cost']['limit'], quotas['requests']['limit']) == (30000, 500)
        assert all(quota['window_seconds'] == 60 and quota['reset'] == 'full' for quota in quotas.values())
        told = gauges(await valid(gateway))
        assert told['llm_tr_rate'] == pytest.approx(quotas['cost']['rate'], rel=0.2)
        assert 29000 < told['llm_tr_bucket'] <= 30000
        assert control['sent'] == 1 and control['cost_mean'] == 11
    async with upstream(reply(completion(), JSON, *QUOTAS[:3])) as server, llm(server) as gateway:
        assert (await ask_llm(gateway)).status == 200
        control = await control_of(gateway)
        told = gauges(await valid(gateway))
        assert (told['llm_tr_rate'] is None) == (not control['rate_active'])  # no quota of tokens


@run
async def test_the_estimate_of_a_key_tells_how_well_outputs_are_predicted():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        assert (await ask_llm(gateway)).status == 200
        _, said = await gateway.ask_api('/gates/llm/gpt-4o')
        estimate = said['estimate']
        assert (estimate['count'], estimate['output_mean']) == (1, 2)
        assert estimate['error_mean'] == estimate['error_abs_mean'] > 0  # 128 were expected of the first


@run
async def test_lanes_of_the_same_names_are_summed_up_and_keys_of_other_routes_are_not_llms():
    async with upstream(reply(completion(), JSON)) as server:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: {{ u: {{ url: "{server.url}" }} }}
gates:
  one: {{ limit: {{ start: 4, min: 1, max: 64 }} }}
  two: {{ limit: {{ start: 7, min: 1, max: 64 }} }}
  plain: {{ limit: {{ start: 9, min: 1, max: 64 }} }}
  fixed: {{ limit: 5 }}
routes:
  - {{ match: /one/, llm: openai, key: "{{model}}", gate: one, upstream: u }}
  - {{ match: /two/, llm: openai, key: "{{model}}", gate: two, upstream: u }}
  - {{ match: /fixed/, llm: openai, key: "{{model}}", gate: fixed, upstream: u }}
  - {{ match: "/plain/{{f}}", key: "{{f}}", gate: plain, upstream: u }}
'''
        async with weir(config) as gateway:
            for path in ('one', 'two', 'plain', 'fixed'):
                said = await ask(gateway.port, post(chat(), target=f'/{path}/gpt-4o/chat/completions'), 'POST')
                assert said.status == 200
            metrics = await valid(gateway)
            assert len(metrics.all('llm_cc_cwnd')) == 1
            windows = [(await control_of(gateway, gate=gate))['window'] for gate in ('one', 'two')]
            assert gauges(metrics, 'u')['llm_cc_cwnd'] == sum(windows)
            assert metrics.get('weir_gate_limit', gate='plain', key='gpt-4o') == 9


# ---- many

@run
async def test_the_most_series_hold_up_nobody():
    async with upstream(reply(completion(), JSON)) as server, llm(server, gate='limit: { start: 50, min: 1, max: 99 }') as gateway:
        await make_series(gateway, 1200)
        body = await fetch(gateway)
        check_with_promtool(body)
        metrics = Metrics(body)
        check_histograms(metrics)
        assert len(metrics.all('llm_cc_cwnd')) == 1001
        assert gauges(metrics, '_other', '_other')['llm_cc_cwnd'] >= 200 * 50
        series = len(metrics.all('llm_retries_total'))
        await measure(gateway, f'{series} series, 1200 keys, {len(body) / 1e6:.1f} MB', 10)
        await go_away(gateway)


@run
async def test_the_names_that_dashboards_know_can_be_left_out():
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, top='metrics: { llm_names: false }') as gateway:
        assert (await ask_llm(gateway)).status == 200
        await quiet(gateway)
        body = await fetch(gateway)
        check_with_promtool(body)
        metrics = Metrics(body)
        assert not [name for name in metrics.types if name.startswith('llm_')]
        assert sum(metrics.all('weir_llm_duration_seconds_count').values()) == 1
        await gateway.reload(('llm_names: false', 'llm_names: true'))
        assert sum(Metrics(await fetch(gateway)).all('llm_latency_total_seconds_count').values()) == 1


def test_every_metric_is_on_the_page_and_on_the_dashboard():
    root = pathlib.Path(__file__).resolve().parents[2]
    names = set(re.findall(r'\{"((?:weir|llm|process)_\w+)", "\w+",', (root / 'src/api/metrics.c').read_text()))
    page = (root / 'docs/reference/metrics.md').read_text()
    board = (root / 'examples/grafana.json').read_text()
    assert len(names) > 25
    assert {name for name in names if f'`{name}`' not in page} == set()
    assert {name for name in names if name.startswith('weir_llm') and name not in board} == set()
    assert not re.search(r'\bllm_', board)  # they can be left out, and end too soon
