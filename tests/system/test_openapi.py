"""docs/reference/openapi.yaml against a running server: each path, method, status, header and field, in both directions."""
import asyncio
import contextlib
import json
import pathlib
import re

import aiohttp
import jsonschema
import pytest
import yaml
from jobs import jobs
from raw import run
from weir import functions, until, weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = yaml.safe_load((ROOT / 'docs/reference/openapi.yaml').read_text())
METHODS = ('get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace')
GATES = '''
gates:
  agents: { limit: 3, rate: 1000/d, line: { timeout: 30s }, lease: 10m }
  one: { limit: 1, line: { timeout: 30s, status: 429 } }
  strict: { limit: 1, line: { timeout: 30s, status: 503 } }
  gone: { limit: 1 }
  free: { limit: none }
  learning: { limit: { start: 4, min: 1, max: 8 } }
  adapting: { limit: { start: 4, min: 1, max: 8 }, controller: aimd }
'''
TOKENS = '''
api_tokens:
  all: { token: "${WEIR_TEST_ALL}", scopes: [read, submit, work, admin] }
  submitter: { token: "${WEIR_TEST_SUBMITTER}", scopes: [submit] }
  worker: { token: "${WEIR_TEST_WORKER}", scopes: [work] }
'''
ALL = {'Authorization': 'Bearer a-secret-of-somebody'}
SUBMITTER = {'Authorization': 'Bearer a-secret-of-a-submitter'}
WORKER = {'Authorization': 'Bearer a-secret-of-a-worker'}


def resolve(node):
    """What a reference refers to."""
    while isinstance(node, dict) and '$ref' in node and node['$ref'].startswith('#/'):
        target = DOCUMENT
        for part in node['$ref'][2:].split('/'):
            target = target[part]
        if len(node) > 1:  # a schema that adds something to what it refers to
            return node
        node = target
    return node


def operations():
    """Each operation by its id: its path, method and description."""
    return {operation['operationId']: (path, method, operation) for path, item in DOCUMENT['paths'].items()
            for method, operation in item.items() if method in METHODS}


def walk(node, where=()):
    yield where, node
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from walk(child, (*where, key))


def validate(value, schema):
    resolver = jsonschema.RefResolver('', DOCUMENT)
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(value)


# ---- the document by itself

def test_it_is_an_openapi_document():
    assert DOCUMENT['openapi'] == '3.1.0' and set(DOCUMENT) == {'openapi', 'info', 'servers', 'tags', 'paths', 'components'}
    version = re.search(r"version: '([^']+)'", (ROOT / 'meson.build').read_text())[1]
    assert DOCUMENT['info']['version'] == version
    tags = {tag['name'] for tag in DOCUMENT['tags']}
    ids = [operation['operationId'] for item in DOCUMENT['paths'].values() for method, operation in item.items()
           if method in METHODS]
    assert len(ids) == len(set(ids))
    for path, item in DOCUMENT['paths'].items():
        parameters = [resolve(parameter) for parameter in item.get('parameters', [])]
        assert [(p['name'], p['in'], p['required']) for p in parameters] == [
            (name, 'path', True) for name in re.findall(r'{(\w+)}', path)]
        assert set(item) <= {'parameters', *METHODS}
    for _, _, operation in operations().values():
        assert {'operationId', 'tags', 'summary', 'security', 'responses'} <= set(operation)
        assert set(operation) <= {'operationId', 'tags', 'summary', 'description', 'security', 'parameters',
                                  'requestBody', 'responses'}
        assert set(operation['tags']) <= tags
        for status, response in operation['responses'].items():
            response = resolve(response)
            assert re.fullmatch(r'[1-5]\d\d|default', status) and response['description']
            assert set(response) <= {'description', 'headers', 'content'}


def test_every_reference_leads_somewhere_and_everything_is_referred_to():
    used = set()
    for where, node in walk(DOCUMENT):
        if where and where[-1] == '$ref':
            resolve({'$ref': node})
            used.add(tuple(node[2:].split('/')))
    for kind in ('parameters', 'headers', 'responses', 'schemas'):
        for name in DOCUMENT['components'][kind]:
            assert ('components', kind, name) in used, name


def test_schemas_are_schemas_and_closed():
    for name, schema in DOCUMENT['components']['schemas'].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        if schema.get('type') == 'object' and name != 'Counts':  # which others add to
            assert schema['additionalProperties'] is False, name
            assert set(schema.get('required', [])) <= set(schema.get('properties', {})), name


# ---- the document and the source

def test_the_server_has_these_routes_and_no_others():
    table = re.search(r'struct route routes\[\] = {(.*?)\n};', (ROOT / 'src/api/routes.c').read_text(), flags=re.S)[1]
    routes = set()
    for method, first, segments, last, scopes in re.findall(
            r'{WEIR_METHOD_(\w+), "(\w+)", (\d), (\S+), ([\w |]+), \w+, \w+, \w+}', table):
        parts = [first, *(['{gate}', '{key}', 'holders', '{handle}', '?'] if first == 'gates' else ['{jobId}', '?'])]
        parts = parts[:int(segments)]
        if last != 'NULL':
            parts[-1] = last.strip('"')
        scopes = tuple(scope.lower() for scope in scopes.split(' | ') if scope != '0')
        routes.add((method.lower(), '/' + '/'.join(parts), scopes))
    assert len(routes) == table.count('WEIR_METHOD_')
    documented = set()
    for path, method, operation in operations().values():
        assert operation['security'] == [] or operation['security'][-1] == {}  # where there are no tokens
        documented.add((method, path, tuple(way['token'][0] for way in operation['security'][:-1])))
    assert documented == routes


def test_every_field_of_a_reply_is_one_that_the_server_writes():
    folders = ('src/api', 'src/gates', 'src/runner', 'src/base')
    source = '\n'.join(path.read_text() for folder in folders for path in (ROOT / folder).glob('*.c'))
    for where, node in walk(DOCUMENT['components']['schemas']):
        if where and where[-1] == 'properties' and not where[0].endswith('Wish'):
            for name in node:
                assert f'"{name}"' in source, (where, name)


# ---- the running server

class Api:
    """Makes calls by the document, compares each reply with it, and notes which were seen."""

    def __init__(self, gateway):
        self.base = gateway.api
        self.seen = set()
        self.session = gateway._session

    @contextlib.asynccontextmanager
    async def open(self, name, body=None, gate='agents', key='k', job='j', headers=None, query='', handle='1-00000000'):
        path, method, _ = operations()[name]
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        path = path.format(gate=gate, key=key, jobId=job, handle=handle)
        async with self.session.request(method, self.base + path + query, data=data, headers=headers) as reply:
            yield reply

    def check(self, name, reply, text):
        responses = operations()[name][2]['responses']
        status = str(reply.status)
        assert status in responses, (name, status, text)
        self.seen.add((name, status))
        response = resolve(responses[status])
        kind = reply.headers['Content-Type'].split(';')[0]
        assert kind in response['content'] or '*/*' in response['content'], (name, status, kind)
        said = json.loads(text) if kind.endswith('json') else text
        validate(said, response['content'].get(kind, {'schema': {}})['schema'])
        if kind == 'application/problem+json':
            assert said['status'] == reply.status
        else:
            assert reply.headers['Cache-Control'] == 'no-store'
        for field, header in response.get('headers', {}).items():
            header = resolve(header)
            if header.get('required') or field in reply.headers:
                validate(reply.headers[field], header['schema'])
        return said

    async def __call__(self, name, status, body=None, **more):
        async with self.open(name, body, **more) as reply:
            text = await reply.text()
            assert reply.status == status, (name, text)
            return self.check(name, reply, text)


@pytest.fixture(scope='module')
def seen():
    """Which operations were answered with which status, over all tests."""
    return set()


def documented():
    return {(name, status) for name, (_, _, operation) in operations().items() for status in operation['responses']
            if status != 'default'}


def of_gates(name):
    return '{gate}' in operations()[name][0]


def test_what_is_got_is_as_documented(seen):
    @run
    async def test():
        async with weir('api: 127.0.0.1:0\nthreads: 2\n' + GATES) as gateway:
            api = Api(gateway)
            await api('acquire', 200, {'flow': 'f', 'tenant': 't'}, gate='one')
            for name in ('getHealth', 'getReadiness', 'getMetrics', 'listGates', 'getUsage'):
                await api(name, 200)
            await api('getUsage', 200, query='?tenant=t&model=m&day=2025-08-21&from=2025-08-21&to=2025-08-21')
            for query in ('?day=today', '?unknown=1'):
                await api('getUsage', 400, query=query)
            assert (await api('getLine', 200, gate='one'))['line'] == []
            waiter = asyncio.create_task(api('acquire', 200, {'flow': 'g', 'priority': 'low'}, gate='one'))
            await gateway.until('k', gate='one', waiting=1)
            [place] = (await api('getLine', 200, gate='one'))['line']
            assert (place['flow'], place['binding']) == ('g', 'limit')
            [holder] = (await api('getHolders', 200, gate='one'))['holders']
            await api('endHolder', 400, {}, gate='one', handle='x')
            await api('endHolder', 409, {}, gate='one')
            await api('endHolder', 200, {}, gate='one', handle=holder['handle'])
            await api('getHolders', 400, gate='one', query='?limit=0')
            await waiter
            await api('getGate', 200, gate='one')
            await api('getKey', 200, gate='one')
            await api('acquire', 200, {'cost': 7})  # a bucket, and a lease
            await api('getKey', 200)
            assert (await api('acquire', 200, gate='free'))['limit'] is None
            await api('getKey', 200, gate='free')
            for gate, controller in (('learning', 'learned'), ('adapting', 'aimd')):
                await api('acquire', 200, gate=gate)
                [lane] = (await api('getKey', 200, gate=gate))['lanes']
                assert lane['control']['controller'] == controller
            for name, (_, method, _) in operations().items():
                if of_gates(name):
                    await api(name, 404, {} if method == 'post' else None, gate='nowhere')
            for name in ('getKey', 'getLine'):
                assert 'unused' in (await api(name, 404, key='nobody'))['detail']
            seen.update(api.seen)
    test()


def test_events_are_as_documented(seen):
    types = DOCUMENT['components']['schemas']['EventType']['enum']
    code = (ROOT / 'src/gates/event_line.c').read_text()
    table = re.search(r'names\[WEIR_EVENT_TYPE_COUNT\] = {(.*?)};', code, flags=re.S)[1]
    assert re.findall(r'"([^"]+)"', table) == types

    @run
    async def test():
        config = GATES.replace('limit: 1, line: { timeout: 30s, status: 429 }',
                               'limit: 1, line: { timeout: 30s }, events: a2a, lease: 10m')
        async with weir('api: 127.0.0.1:0\nthreads: 2\nevents: { readers: 1 }\n' + config) as gateway:
            api = Api(gateway)
            query = '?gate=one&gate=free&' + '&'.join(f'type={name}' for name in types)
            async with api.open('getEvents', query=query) as reply:
                await api('acquire', 200, {'flow': 'f', 'lease_ms': 1000}, gate='one')
                await api('acquire', 200, {'flow': 'g'}, gate='one')  # waits for the end of the first one's lease
                await api('acquire', 429, {'timeout_ms': 0}, gate='one')
                for name in (types[0], types[7], types[6], types[1], types[8]):
                    line = (await reply.content.readline()).decode()
                    assert api.check('getEvents', reply, line)['type'] == name
                await api('getEvents', 503)
            for status, query in (400, '?type=none'), (400, '?none'), (404, '?gate=none'):
                await api('getEvents', status, query=query)
            seen.update(api.seen)
    test()


def test_permits_are_as_documented(seen):
    @run
    async def test():
        async with weir('api: 127.0.0.1:0\nthreads: 2\n' + GATES) as gateway:
            api = Api(gateway)
            said = await api('acquire', 200)
            assert said['lease_ms'] == 600000
            await api('renew', 200, {'permit': said['permit']})
            await api('release', 200, {'permit': said['permit'], 'outcome': 'soft_loss', 'cost': 0})
            await api('renew', 409, {'permit': said['permit']})
            await api('release', 409, {'permit': said['permit']})
            for gate, status in (('one', 429), ('strict', 503)):
                await api('acquire', 200, {'flow': 'f'}, gate=gate)
                said = await api('acquire', status, {'timeout_ms': 0}, gate=gate)
                assert (said['type'], said['gate'], said['timeout_ms']) == ('urn:weir:line-timeout', gate, 0)
            for _ in range(4):  # the flow has one place, which five permits may share
                await api('acquire', 200, {'flow': 'f'}, gate='one')
            assert (await api('acquire', 508, {'flow': 'f'}, gate='one'))['type'] == 'urn:weir:too-deep'
            async with api.open('acquire', {'hold': True}, gate='free') as reply:
                api.check('acquire', reply, (await reply.content.readline()).decode())
            gateway.path.write_text(gateway.path.read_text().replace('  gone: { limit: 1 }\n', ''))
            assert (await api('reload', 200))['gates'] == 6
            assert (await api('acquire', 503, gate='gone'))['type'] == 'urn:weir:draining'
            for name in ('acquire', 'release', 'renew'):
                await api(name, 413, b'{"flow": "' + b'x' * 70000 + b'"}')
            seen.update(api.seen)
    test()


def test_what_is_set_by_hand_is_as_documented(seen):
    @run
    async def test():
        async with weir('api: 127.0.0.1:0\n' + GATES) as gateway:
            api = Api(gateway)
            assert (await api('setLimit', 200, {'limit': 5}))['limit_by_hand'] == {'limit': 5}
            await api('setLimit', 400, {'limit': 'five'})
            for name in ('pauseKey', 'resumeKey', 'removeLimit', 'pauseGate', 'pauseKey'):
                await api(name, 200)
                await api('getKey', 200)
            assert len((await api('reload', 200))['overrides']) == 2
            await api('resumeGate', 200)
            for name in ('setLimit', 'removeLimit', 'pauseKey', 'resumeKey', 'pauseGate', 'resumeGate'):
                await api(name, 404, {'limit': 1} if name == 'setLimit' else None, gate='nowhere')
            for number in range(1000):
                await api('setLimit', 200 if number < 999 else 409, {'limit': 1}, key=f'k{number}')
            seen.update(api.seen)
    test()


def test_a_reload_is_as_documented(seen):
    @run
    async def test():
        async with functions() as (gateway, upstream, client):
            api = Api(gateway)
            config = gateway.path.read_text()
            gateway.path.write_text(config.replace('threads: 2', 'threads: 1'))
            assert (await api('reload', 200))['needs_restart'] == 'threads'
            gateway.path.write_text(config.replace('limit: 1', 'limt: 1'))
            await api('reload', 422)
            held = asyncio.create_task(client.get('/functions/f?hold&id=a'))
            await gateway.until('f', active=1)
            gateway.terminate()

            async def drains():
                async with api.open('getReadiness') as reply:
                    return reply.status == 503
            await until(drains, 'it drains')
            await api('getReadiness', 503)
            await api('reload', 503)
            upstream.open('a')
            (await held).release()
            seen.update(api.seen)
    test()


def test_who_may_not_call_is_told_as_documented(seen, monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ALL', 'a-secret-of-somebody')
    monkeypatch.setenv('WEIR_TEST_SUBMITTER', 'a-secret-of-a-submitter')
    monkeypatch.setenv('WEIR_TEST_WORKER', 'a-secret-of-a-worker')

    @run
    async def test():
        async with weir('api: 127.0.0.1:0\n' + GATES + TOKENS) as gateway:
            api = Api(gateway)
            for name, (_, method, operation) in operations().items():
                body = {} if method == 'post' else None
                await api(name, 403, body, headers={**ALL, 'Host': 'elsewhere.example'})
                if operation['security']:
                    submits = {'token': ['submit']} in operation['security']
                    await api(name, 401, body)
                    await api(name, 403, body, headers=WORKER if submits else SUBMITTER)
                    async with api.open(name, body, headers=ALL) as reply:
                        assert reply.status not in (401, 403)
            seen.update(api.seen)
    test()


def test_other_methods_and_paths_are_not_there():
    @run
    async def test():
        async with weir('api: 127.0.0.1:0\n' + GATES) as gateway, aiohttp.ClientSession(gateway.api) as session:
            for path, item in DOCUMENT['paths'].items():
                has = {method.upper() for method in item if method in METHODS}
                has |= {'HEAD'} if 'GET' in has else set()
                has |= {'DELETE'} if path == '/dlq/redrive' else set()  # as of a job of that name
                has |= {'GET', 'HEAD'} if re.fullmatch('/gates/{gate}/(pause|resume)', path) else set()  # a key's
                target = path.format(gate='agents', key='k', jobId='j', handle='1-00000000')
                for method in {'GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS', 'PATCH'} - has:
                    async with session.request(method, target) as reply:
                        assert reply.status == 405, (method, path)
                        assert set(reply.headers['Allow'].split(', ')) == has, path
                        if method != 'HEAD':
                            validate(json.loads(await reply.text()), {'$ref': '#/components/schemas/Problem'})
                async with session.get(target + '/more/of/it') as reply:
                    assert reply.status == 404
    test()


def test_jobs_are_as_documented(seen):
    @run
    async def test():
        async with jobs() as call:
            api = Api(call.gateway)
            wait = {'Prefer': 'wait=60'}
            lines = {'Content-Type': 'application/x-ndjson'}
            await api('submitJob', 202, b'x', job='a', query='?queue=keep&tenant=t&priority=low&key=k&delay=5s&attempts=3')
            await api('submitJob', 200, b'x', job='a', query='?queue=keep&tenant=t')
            await api('submitJob', 200, b'x', job='e', headers=wait)
            await api('submitJob', 409, b'y', job='a', query='?queue=keep&tenant=t')
            await api('submitJob', 422, b'x', job='bad', query='?queue=broken', headers=wait)
            await api('submitJob', 202, b'x', job='p', query='?queue=patient&run_at=2096-01-01T00:00:00Z')
            await api('submitJob', 413, b'x' * 70001, query='?queue=small')
            await api('submit', 202, b'x', query='?queue=keep')
            await api('submit', 202, b'x', query='?queue=keep', headers={'Idempotency-Key': 'K'})
            await api('submit', 200, b'x', query='?queue=keep', headers={'Idempotency-Key': 'K'})
            await api('submit', 409, b'y', query='?queue=keep', headers={'Idempotency-Key': 'K'})
            await api('submit', 200, b'x', headers=wait)
            await api('submit', 422, b'x', query='?queue=broken', headers=wait)
            await api('submit', 202, b'{"id": "n1", "queue": "keep"}\n{"queue": "keep"}', headers=lines)
            await api('submit', 200, b'{"id": "n1", "queue": "keep"}', headers=lines)
            await api('submit', 400, b'{', headers=lines)
            await api('submit', 413, b'{}\n' * 10001, headers=lines)
            await api('submit', 413, b'{"queue": "small"}\n' * 3, headers=lines)
            await api('submit', 202, b'{"queue": "small"}\n' * 2, headers=lines)
            await api('submit', 429, b'{"queue": "small"}\n' * 2, headers=lines)
            for name in ('submit', 'submitJob'):
                await api(name, 400, b'x', query='?unknown=1')
                await api(name, 404, b'x', query='?queue=none')
            await api('submit', 202, b'x', query='?queue=slow')
            await api('submitJob', 202, b'x', query='?queue=slow', job='s')
            await api('submitJob', 429, b'x', query='?queue=slow', job='s2')
            await api('getStatus', 200, job='e', query='?wait=60')
            assert (await api('getStatus', 200, job='n1'))['position'] == 3
            await api('getResult', 200, job='e')
            await api('getResult', 409, job='a')
            await api('getResult', 422, job='bad')
            await api('getLog', 200, job='bad')
            await api('listJobs', 200)
            assert 'next' in await api('listJobs', 200, query='?state=queued&queue=keep&tenant=t&after=0&limit=1')
            await api('listDead', 200)
            assert (await api('getCapacity', 200))['accepting']
            await api('cancel', 200, job='n1')
            await api('cancel', 409, job='bad')
            await api('redrive', 409, job='a')
            await api('removeDead', 409, job='a')
            assert (await api('redrive', 200, job='bad'))['redriven'] == 1
            await api('getStatus', 200, job='bad', query='?wait=60')
            await api('redriveAll', 200, query='?queue=broken&tenant=none')
            await api('removeDead', 200, job='bad')
            for name in ('getResult', 'getLog', 'redrive', 'removeDead'):
                await api(name, 410, job='bad')
            await api('getStatus', 200, job='bad')
            for name in ('getStatus', 'getResult', 'getLog', 'cancel', 'listJobs', 'listDead', 'getCapacity', 'redrive',
                         'redriveAll', 'removeDead'):
                await api(name, 400, query='?unknown=1')
            for name in ('getStatus', 'getResult', 'getLog', 'cancel', 'redrive', 'removeDead'):
                await api(name, 404, job='nobody')
            await api('submitJob', 202, b'x', job='d', query='?queue=dying')
            await api('getStatus', 200, job='d', query='?wait=60')
            for name in ('submit', 'submitJob'):
                await api(name, 503, b'x', query='?queue=dying')
            seen.update(api.seen)
        async with weir('api: 127.0.0.1:0\n') as gateway:
            api = Api(gateway)
            for name in ('listJobs', 'listDead', 'getCapacity', 'redriveAll'):
                await api(name, 404)
            seen.update(api.seen)
    test()


# ---- what is asked: each field at its bounds

def good_values(schema):
    schema = {**resolve({'$ref': schema['$ref']}), **schema} if '$ref' in schema else schema
    if 'enum' in schema:
        return schema['enum']
    return {'integer': [schema.get('minimum'), schema.get('maximum')], 'boolean': [False],
            'string': ['x' * schema.get('minLength', 0), 'x' * schema.get('maxLength', 0)]}[schema['type']]


def bad_values(schema):
    schema = {**resolve({'$ref': schema['$ref']}), **schema} if '$ref' in schema else schema
    if 'enum' in schema:
        return ['other', schema['enum'][0].upper(), 1, None]
    return {'integer': [schema.get('minimum', 0) - 1, schema.get('maximum', 0) + 1, '1', 1.5, None, True],
            'boolean': ['true', 0, None],
            'string': ['', 'x' * (schema.get('maxLength', 0) + 1), 1, None, ['x']]}[schema['type']]


@pytest.mark.parametrize('name', ['acquire', 'release', 'renew'])
def test_what_is_asked_is_as_documented(seen, name):
    @run
    async def test():
        schema = resolve(operations()[name][2]['requestBody']['content']['application/json']['schema'])
        named = {} if name == 'acquire' else {'flow': 'nobody'}
        async with weir('api: 127.0.0.1:0\n' + GATES) as gateway:
            api = Api(gateway)
            for field, rule in schema['properties'].items():
                others = {} if field in ('permit', 'flow') else named
                for value in good_values(rule):
                    validate({field: value, **others}, schema)
                    await api(name, 200 if name == 'acquire' else 409, {field: value, **others}, gate='free')
                for value in bad_values(rule):
                    with pytest.raises(jsonschema.ValidationError):
                        validate({field: value, **others}, schema)
                    said = await api(name, 400, {field: value, **others}, gate='free')
                    assert f'The field {field} is ' in said['detail']
            for body in ({'unknown': 1, **named}, [], 'text', None if name == 'acquire' else {},
                         {'permit': 'x', 'flow': 'y'}):
                with pytest.raises(jsonschema.ValidationError):
                    validate(body, schema)
                await api(name, 400, json.dumps(body).encode(), gate='free')
            await api(name, 400, b'{"flow": "f"', gate='free')
            seen.update(api.seen)
    test()


@pytest.mark.whole_file
def test_every_status_that_is_documented_was_seen(seen):
    assert seen == documented()
