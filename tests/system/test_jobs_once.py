"""A route is called once at most for each attempt, also by a Weir that is killed meanwhile (docs/internals/jobs.md, J4)."""
import asyncio
import collections
import contextlib
import os

import aiohttp
from aiohttp import web
from job_load import site, to_the_end
from power import SHIM
from weir import PATIENCE, until

KILLS = int(os.environ.get('WEIR_KILLS', '12' if SHIM.exists() else '4'))

ROUTE = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
data: {data}
upstreams: {{ u: {{ url: "http://127.0.0.1:{upstream}" }} }}
gates: {{ g: {{ limit: 4 }} }}
routes: [ {{ match: /deadly, gate: g, key: all, upstream: u }} ]
queues: {{ work: {{ route: /deadly, workers: 4, attempts: 1 }} }}
'''


@to_the_end
async def test_a_route_whose_upstream_kills_weir_is_called_once(tmp_path):
    calls = collections.Counter()
    async with site(tmp_path, config=ROUTE) as one, aiohttp.ClientSession() as session:
        async def die(request):
            calls[request.headers['X-Request-Id']] += 1
            with contextlib.suppress(ProcessLookupError):
                one.process.kill()
            return web.Response(status=500)
        one.upstream.deadly = die
        for number in range(KILLS):
            await one.start()
            await one.ask(session, 'POST', f'/submit/j{number}?queue=work', b'x')
            await asyncio.wait_for(one.process.wait(), PATIENCE)
            one.up.clear()
        await one.start()

        async def ended():
            listed = await one.listed(session)
            return all(document['state'] in ('done', 'failed') for document in listed) and listed
        listed = await until(ended, 'all have ended')
        assert {document['id'] for document in listed} >= set(calls) and len(calls) >= KILLS // 2
        assert {job: count for job, count in calls.items() if count > 1} == {}
        assert {document['state'] for document in listed if document['id'] in calls} == {'failed'}, listed
        await one.end()
